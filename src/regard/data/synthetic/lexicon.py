"""The adjectives, verbs and determiners of the built-in synthetic dataset, and which of them go together.

Adjectives and verbs name the nouns that they suit, by the tags of `nouns.py`, so that every sentence makes sense.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.synthetic.nouns import Noun, matching

# English | French (masculine[,feminine[,plurals[,before a vowel]]]) | place and rank | the nouns it suits
# Place: `pre` or `post` the French noun. Rank: the English order of stacked adjectives.
# `fixed` takes no degree (no "too closed"), `praise` no "too"; `attributive` never follows "is"; `avoir:x` is said with
# "avoir x" after a verb ("was hungry", "avait faim").
ADJECTIVE_LINES = """
other | autre | pre 0 attributive | animal vehicle building room container furniture thing missile clothing dish work text
beautiful | beau,belle,beaux,belles,bel | pre 1 praise | queen princess woman girl actress bird horse cat squirrel garden park castle church hotel house valley lake river forest clothing -shoe ring flower tree work art vase guitar
pretty | joli | pre 1 praise | dress scarf hat shirt house garden village flower ring doll princess vase lamp cup photo song
good | bon,bonne | pre 1 praise | food drink work book restaurant hotel doctor waiter waitress actor actress
big | grand | pre 2 | animal -insect -tiny -hen -duck vehicle building container furniture thing missile room village garden park tree cake pizza
huge | énorme | pre 2 fixed | elephant animal -insect -tiny -hen -duck -bird -rabbit vehicle -bike castle church museum container stone rock branch tree statue painting cake
small | petit | pre 2 | boy girl child animal -elephant -giraffe vehicle -ambulance -tractor house church hotel restaurant museum village garden park room container furniture -piano thing dish missile light cover small_thing
little | petit | pre 2 attributive | girl boy child pet tiny house village garden box dish lamp candle doll table
long | long,longue | pre 2 | street road avenue bridge tunnel path corridor draped letter work -painting table bench sofa shelf curtain umbrella
old | vieux,vieille,vieux,vieilles,vieil | pre 4 | adult animal -insect vehicle building village bridge furniture thing container clothing tree photo
new | nouveau,nouvelle,nouveaux,nouvelles,nouvel | pre 4 attributive | vehicle clothing furniture machine container school museum hospital hotel restaurant library bridge book song film waiter waitress
young | jeune | pre 4 | adult princess prince worker pet wolf fox elephant giraffe
red | rouge | post 5 fixed | vehicle clothing container furniture -piano dish vase umbrella door ball flower curtain blanket tablecloth rug apple tomato wine brick
blue | bleu | post 5 fixed | vehicle clothing container furniture -piano dish vase umbrella door ball flower curtain blanket tablecloth rug
green | vert | post 5 fixed | vehicle clothing container furniture -piano dish vase umbrella door ball curtain blanket apple pear bottle frog
yellow | jaune | post 5 fixed | vehicle clothing container furniture -piano dish vase umbrella door ball flower curtain blanket apple pear
white | blanc,blanche | post 5 fixed | vehicle clothing furniture dish wall door horse cat dog rabbit goat hen mouse duck wine flower house
black | noir | post 5 fixed | vehicle clothing suitcase bag umbrella horse cat dog goat hen wolf spider ant piano door
grey | gris | post 5 fixed | horse cat donkey mouse wolf rabbit squirrel owl clothing wall stone car
brown | brun | post 5 fixed | dog horse cow hen duck squirrel
French | français | post 6 fixed | king queen artist -hero worker vehicle -ambulance book newspaper work wine cheese restaurant
English | anglais | post 6 fixed | king queen artist -hero worker vehicle -ambulance book newspaper work tea
Italian | italien,italienne | post 6 fixed | artist -hero worker vehicle -ambulance book newspaper work wine cheese restaurant
Spanish | espagnol | post 6 fixed | king queen artist -hero worker vehicle -ambulance book newspaper work wine restaurant
tired | fatigué | post 3 | human animal -insect
hungry | affamé | post 3 avoir:faim | human animal
thirsty | assoiffé | post 3 avoir:soif | human animal -insect
scared | effrayé | post 3 avoir:peur | human animal -insect
sick | malade | post 3 | human -doctor animal -insect
lazy | paresseux,paresseuse | post 3 | human animal -insect -ant
shy | timide | post 3 | human animal -insect -wolf
nervous | nerveux,nerveuse | post 3 | human animal -insect
worried | inquiet,inquiète | post 3 | human animal -insect
weak | faible | post 3 | animal light
strong | fort | post 3 praise | man soldier horse elephant donkey coffee tea
sad | triste | post 3 | human animal -insect work
happy | heureux,heureuse | post 3 praise | human animal -insect
brave | courageux,courageuse | post 3 praise | human dog
intelligent | intelligent | post 3 praise | human dog horse cat elephant fox
polite | poli | post 3 praise | human
generous | généreux,généreuse | post 3 praise | human
elegant | élégant | post 3 praise | adult princess prince clothing -shoe restaurant hotel
famous | célèbre | post 3 praise | artist king queen doctor museum castle art -photo work book bridge restaurant
expensive | cher,chère | post 3 | vehicle -ambulance clothing furniture thing suitcase bag wardrobe ring wine hotel restaurant
heavy | lourd | post 3 | container furniture thing -umbrella missile tool door driven -bike blanket
hard | dur | post 3 | missile bread cheese cookie bench bed chair
fragile | fragile | post 3 | breakable violin doll statue
delicate | délicat | post 3 | breakable
dirty | sale | post 3 | vehicle clothing window wall street kitchen dish cover dog
clean | propre | post 3 praise | vehicle clothing window street kitchen dish cover
empty | vide | post 3 fixed | container bottle room house street restaurant bus
full | plein | post 3 | container bottle
broken | cassé | post 3 fixed | breakable furniture clock doll umbrella guitar
modern | moderne | post 3 praise | building -castle -church furniture -piano kitchen
comfortable | confortable | post 3 praise | soft shoe coat house hotel
quiet | calme | post 3 | village street garden park hotel square library
noisy | bruyant | post 3 | street avenue square market restaurant motorcycle truck tractor young dog duck
wide | large | post 3 | street road avenue bridge river square stream field valley bed sofa bench table shelf mirror painting hat armchair
narrow | étroit | post 3 | street road bridge path tunnel corridor container cover bed bench shelf
deep | profond | post 3 | watery valley
dark | sombre | post 3 | dim room street path
slippery | glissant | post 3 | paved bridge path square
muddy | boueux,boueuse | post 3 | soil road garden
flooded | inondé | post 3 fixed | paved field tunnel valley square cellar garden
closed | fermé | post 3 fixed | bridge tunnel road public door window box suitcase
vast | vaste | pre 2 | desert forest field lake valley castle
steep | raide | post 3 | path road street
dry | sec,sèche | post 3 | desert field bread cake cookie
short | court | post 3 | cover dress coat letter story film path
dangerous | dangereux,dangereuse | post 3 | wolf elephant road street bridge river tunnel path forest desert lake
fast | rapide | post 3 praise | car motorcycle boat horse bike truck van dog fox rabbit
slow | lent | post 3 | vehicle turtle donkey
hot | chaud | post 3 | soup brewed milk water pizza bread
cold | froid | post 3 | soup liquid -coffee cooked -salad -cookie -sandwich kitchen cellar
sweet | sucré | post 3 | fruit -tomato cake cookie brewed
salty | salé | post 3 | soup cheese sausage rice sandwich egg bread pizza salad
spicy | épicé | post 3 | soup sausage rice pizza sandwich salad
bitter | amer,amère | post 3 | brewed salad carrot
ripe | mûr | post 3 praise | fruit
fresh | frais,fraîche | post 3 praise | bread egg cheese milk fruit salad
delicious | délicieux,délicieuse | post 3 fixed | food wine
interesting | intéressant | post 3 praise | text work museum report
boring | ennuyeux,ennuyeuse | post 3 | work book newspaper museum report
important | important | post 3 praise | document letter bridge
useful | utile | post 3 praise | tool umbrella lamp computer bag
round | rond | post 3 | table mirror box window basket clock rug
"""  # noqa: E501

# English (base,past,participle; regular if absent) + preposition | French | subjects | objects
# French: an infinitive in -er, or "je il nous ils participle"; `+x` is its preposition, `être` its auxiliary.
# `present` verbs are states: their past would need another French tense. `active` verbs have no object
# pronoun, passive or object relative here.
VERB_LINES = """
see,saw,seen | vois voit voyons voient vu | human animal | human animal vehicle -bike building art flower film
eat,ate,eaten | manger | human dog rabbit mouse fox | food
drink,drank,drunk | bois boit buvons boivent bu | human | drink
buy,bought,bought | achète achète achetons achètent acheté | human | clothing food -soup -rice drink -water vehicle -ambulance furniture thing container small_thing text pet flower house castle
sell,sold,sold | vends vend vendons vendent vendu | human | clothing food -soup -rice vehicle -ambulance furniture thing ring pet flower house castle
write,wrote,written | écris écrit écrivons écrivent écrit | human | letter book story song
cross,crossed,crossed | traverser | human pet wild | way
follow | suis suit suivons suivent suivi | human pet wild | human animal vehicle path river road
carry,carried,carried | porter | human | container -wardrobe -drawer thing -mirror missile chair
wear,wore,worn | porter | human | clothing ring
find,found,found | trouver | human pet | thing small_thing clothing toy container -wardrobe letter
lose,lost,lost | perds perd perdons perdent perdu | human | small_thing umbrella suitcase bag clothing -dress book letter
break,broke,broken | casser | human | breakable clock toy guitar
open | ouvre ouvre ouvrons ouvrent ouvert | human | door window container -basket letter bottle
close | fermer | human | door window container -basket book
clean | nettoie nettoie nettoyons nettoient nettoyé | human | room window vehicle furniture church school restaurant
wash,washed,washed | laver | human | vehicle clothing -hat dish cover dog horse fruit
paint | peins peint peignons peignent peint | human | door wall chair table boat flower tree bench
hear,heard,heard | entends entend entendons entendent entendu | human animal | human pet wolf owl song violin piano guitar motorcycle
draw,drew,drawn | dessiner | human | human animal -insect building tree flower bridge
visit | visiter | human | museum castle church school hospital village house park market library
repair | réparer | human | vehicle furniture machine toy -ball door guitar umbrella bridge clock
use | utiliser | human | tool machine bag umbrella lamp -piano
prepare | préparer | human | cooked brewed
hide,hid,hidden | cacher | human | thing small_thing letter suitcase bag toy
push,pushed,pushed | pousser | human | vehicle -bus -boat furniture crate suitcase stone rock
pull | tirer | horse donkey man woman boy girl | car boat suitcase crate branch tractor
build,built,built | construis construit construisons construisent construit | human | house castle boat bridge wall school church hospital hotel table shelf
steal,stole,stolen | voler | human fox | ring car bike bag suitcase painting statue apple cheese clock phone hen
forget,forgot,forgotten | oublier | human | small_thing umbrella suitcase bag clothing -dress book letter
borrow | emprunter | human | vehicle -boat -ambulance -bus book tool umbrella suitcase guitar violin chair
admire | admirer | human | castle church house garden art -photo flower tree horse queen king princess hero actress actor dress valley lake
feed,fed,fed | nourris nourrit nourrissons nourrissent nourri | human | pet squirrel elephant giraffe
watch,watched,watched | regarder | human animal | human animal boat film river fire -kin
protect | protège protège protégeons protègent protégé | human dog | human animal house castle garden village -insect
help | aider | human | human
thank | remercier | human | human
meet,met,met | rencontrer | human | human
invite,invited,invited | inviter | human | human -king -queen
love,loved,loved | aimer | human | human pet work art -photo food -egg drink -water garden house village clothing flower | present
know,knew,known | connais connaît connaissons connaissent connu | human | human village castle restaurant song story museum | present
prefer,preferred,preferred | préfère préfère préférons préfèrent préféré | human | food drink clothing vehicle -ambulance work furniture -shelf | present
fear | crains craint craignons craignent craint | human pet | wolf wild spider soldier king -giraffe fire | present
wait for | attends attend attendons attendent attendu | human | human bus ambulance boat
look for | chercher | human pet | small_thing umbrella human dog cat ball bag -king -queen book letter
listen to | écouter | human | human song story bird piano violin guitar
talk to | parler +à | human | human pet
talk about | parler +de | human | human animal -insect film story book painting village castle restaurant law treaty
play with | jouer +avec | young dog cat sister brother | ball doll dog cat child sister brother toy rabbit
obey | obéis obéit obéissons obéissent obéi +à | human dog horse -king -queen | human -child
answer | réponds répond répondons répondent répondu +à | human | human letter
sleep,slept,slept | dors dort dormons dorment dormi | human animal
run,ran,run | cours court courons courent couru | human animal
sing,sang,sung | chanter | human bird
dance | danser | human
laugh | ris rit rions rient ri | human
cry,cried,cried | pleurer | human
work | travailler | human -child horse
smile | souris sourit sourions sourient souri | human
swim,swam,swum | nager | human duck dog frog turtle horse
jump | sauter | young frog horse rabbit cat dog squirrel goat
arrive | arriver être | human vehicle -bike
leave,left,left | pars part partons partent parti être | human vehicle -bike
fall,fell,fallen | tomber être | human thing -lantern tree breakable -window -lamp pet
stay | rester être | human pet
return | reviens revient revenons reviennent revenu être | human pet boat
give,gave,given | donner | human | thing small_thing clothing -shoe flower letter food -soup -rice -salad toy | | to
show,showed,shown | montrer | human | thing small_thing clothing letter house garden car toy | | to
lend,lent,lent | prêter | human | vehicle -bus -ambulance book umbrella suitcase clothing -dress tool guitar violin | | to
send,sent,sent | envoie envoie envoyons envoient envoyé | human | letter book flower photo newspaper | | to
sign | signer | institution | signed | active
publish | publier | institution | report law | active
reject | rejette rejette rejetons rejettent rejeté | institution | document | active
adopt | adopter | institution | issued treaty | active
light,lit,lit | éclairer | light | room | active
cover | couvre couvre couvrons couvrent couvert | cover | furniture | active
fit in | entrer +dans être | thing clothing | container | active
"""  # noqa: E501

POSSESSIVES: dict[str, tuple[str, str, str]] = {  # English: masculine, feminine, plural
    "my": ("mon", "ma", "mes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
}


@dataclass(frozen=True, eq=False)
class Adjective:
    """One adjective with its four French forms, and the nouns it suits."""

    english: str
    forms: tuple[str, str, str, str]  # masculine, feminine, masculine plural, feminine plural
    before_vowel: str | None  # the masculine singular before a vowel, where it differs: bel, vieil
    precedes: bool
    rank: int
    takes_degree: bool
    is_praise: bool  # nothing is "too useful"
    is_attributive: bool
    idiom: str | None  # the noun said with "avoir" instead: faim, peur
    nouns: frozenset[Noun]

    def french(self, gender: str, *, plural: bool) -> str:
        return self.forms[2 * plural + (gender == "f")]


@dataclass(frozen=True, eq=False)
class Verb:
    """One verb: its forms in both languages, its prepositions, and what may be its subject and object."""

    english: str
    third: str
    past: str
    participle: str
    preposition: str | None  # of the English object: "wait for"
    french_present: tuple[str, str, str, str]  # je, il, nous, ils
    french_participle: str
    french_preposition: str | None
    takes_etre: bool
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    flags: frozenset[str]

    @property
    def name(self) -> str:
        """What tells it from other verbs: 'talk to' is not 'talk about'."""
        return f"{self.english} {self.preposition}" if self.preposition else self.english

    @property
    def is_direct(self) -> bool:
        """Whether both languages have a plain object, so that it can be a pronoun or relativised."""
        return bool(self.objects) and not (self.preposition or self.french_preposition or self.flags & {"active"})


def inflect(masculine: str, *, feminine: str = "") -> tuple[str, str, str, str]:
    """The four forms of a French adjective or participle that follows the rules.

    >>> inflect("gris"), inflect("heureux", feminine="heureuse")[2]
    (('gris', 'grise', 'gris', 'grises'), 'heureux')
    """
    feminine = feminine or (masculine if masculine.endswith("e") else masculine + "e")
    plural = masculine if masculine[-1] in "sx" else masculine + "s"
    return masculine, feminine, plural, feminine + "s"


def _adjective(line: str) -> Adjective:
    english, french, facts, nouns = (part.strip() for part in line.split("|"))
    masculine, feminine, masculine_plural, feminine_plural, before_vowel = (french.split(",") + [""] * 4)[:5]
    regular = inflect(masculine, feminine=feminine)
    place, rank, *flags = facts.split()
    idiom = next((flag.removeprefix("avoir:") for flag in flags if flag.startswith("avoir:")), None)
    return Adjective(
        english=english,
        forms=(*regular[:2], masculine_plural or regular[2], feminine_plural or regular[3]),
        before_vowel=before_vowel or None,
        precedes=place == "pre",
        rank=int(rank),
        takes_degree="fixed" not in flags,
        is_praise="praise" in flags,
        is_attributive="attributive" in flags,
        idiom=idiom,
        nouns=frozenset(matching(nouns)),
    )


def third_person(base: str) -> str:
    """The English third person: carries, washes, buys."""
    if base.endswith(("s", "sh", "ch", "x", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ies"
    return base + "s"


def _past(base: str) -> str:
    return base + "d" if base.endswith("e") else base + "ed"


def _conjugate(infinitive: str) -> list[str]:
    """The present and the participle of a regular French verb in -er."""
    stem = infinitive.removesuffix("er")
    soft = stem + "e" if stem.endswith("g") else stem
    return [stem + "e", stem + "e", soft + "ons", stem + "ent", stem + "é"]


def _verb(line: str) -> Verb:
    english, french, subjects, objects, flags, recipient = ([part.strip() for part in line.split("|")] + [""] * 4)[:6]
    spelled, _, preposition = english.partition(" ")
    base, past, participle = (spelled.split(",") + [""] * 2)[:3]
    words = french.split()
    takes_etre = "être" in words
    governed = next((word[1:] for word in words if word.startswith("+")), None)
    forms = [word for word in words if word != "être" and not word.startswith("+")]
    if len(forms) == 1:
        forms = _conjugate(forms[0])
    return Verb(
        english=base,
        third=third_person(base),
        past=past or _past(base),
        participle=participle or _past(base),
        preposition=preposition or None,
        french_present=(forms[0], forms[1], forms[2], forms[3]),
        french_participle=forms[4],
        french_preposition=governed,
        takes_etre=takes_etre,
        subjects=matching(subjects),
        objects=matching(objects),
        flags=frozenset(flags.split()) | ({"recipient"} if recipient else set()),
    )


ADJECTIVES: tuple[Adjective, ...] = tuple(_adjective(line) for line in ADJECTIVE_LINES.strip().splitlines())
VERBS: tuple[Verb, ...] = tuple(_verb(line) for line in VERB_LINES.strip().splitlines())
ADJECTIVE: dict[str, Adjective] = {adjective.english: adjective for adjective in ADJECTIVES}
VERB: dict[str, Verb] = {verb.name: verb for verb in VERBS}

_ATTRIBUTES: dict[Noun, tuple[Adjective, ...]] = {}
_PREDICATES: dict[Noun, tuple[Adjective, ...]] = {}


def attributes(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that may stand beside this noun."""
    if noun not in _ATTRIBUTES:
        _ATTRIBUTES[noun] = tuple(adjective for adjective in ADJECTIVES if noun in adjective.nouns)
    return _ATTRIBUTES[noun]


def predicates(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that may be said of this noun after 'is'."""
    if noun not in _PREDICATES:
        suited = attributes(noun) if not noun.is_name else tuple(PERSONAL)
        _PREDICATES[noun] = tuple(adjective for adjective in suited if not adjective.is_attributive)
    return _PREDICATES[noun]


# What is said of people known by name.
_OF_PEOPLE = """
tired hungry thirsty scared sick lazy shy nervous worried sad happy brave intelligent polite generous
"""
PERSONAL: tuple[Adjective, ...] = tuple(map(ADJECTIVE.__getitem__, _OF_PEOPLE.split()))
