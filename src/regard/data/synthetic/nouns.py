"""The nouns of the built-in synthetic dataset, with their French translation, gender and tags.

One noun per line: English, French, gender, tags. An irregular plural follows a slash. Tags are semantic classes
(`human`, `food`, `vehicle` …) for verbs and adjectives, or grammar: `mass` has no plural, `single` is only used in the
singular, `kin` needs an owner ("my sister"), `epicene` can be a man or a woman, `aspirated` has an h that prevents
elision ("le hibou").
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.synthetic.patterns import COMPOUND_GENDERS, COMPOUNDS, Phrase

NOUN_LINES = """
girl                fille               f  human young
boy                 garçon              m  human young
woman/women         femme               f  human adult
man/men             homme               m  human adult
child/children      enfant              m  human young epicene
king                roi                 m  human adult
queen               reine               f  human adult
princess/princesses princesse           f  human
prince              prince              m  human
mother              mère                f  human kin single
father              père                m  human kin single
sister              sœur                f  human kin
brother             frère               m  human kin
aunt                tante               f  human kin
uncle               oncle               m  human kin
actress/actresses   actrice             f  human adult artist
actor               acteur              m  human adult artist
waitress/waitresses serveuse            f  human worker
waiter              serveur             m  human worker
doctor              médecin             m  human adult worker epicene
soldier             soldat              m  human worker epicene
hero/heroes         héros/héros         m  human artist aspirated
animal              animal/animaux      m  animal wild
dog                 chien               m  animal pet
cat                 chat                m  animal pet
horse               cheval/chevaux      m  animal pet quick
cow                 vache               f  animal pet
mouse/mice          souris/souris       f  animal tiny
turtle              tortue              f  animal pet
goat                chèvre              f  animal pet
bird                oiseau/oiseaux      m  animal pet
rabbit              lapin               m  animal pet
wolf/wolves         loup                m  animal wild quick
fox/foxes           renard              m  animal wild
hen                 poule               f  animal pet
duck                canard              m  animal pet
frog                grenouille          f  animal tiny
elephant            éléphant            m  animal wild
owl                 hibou/hiboux        m  animal aspirated
donkey              âne                 m  animal pet
giraffe             girafe              f  animal wild
squirrel            écureuil            m  animal tiny
ant                 fourmi              f  animal insect
spider              araignée            f  animal insect
apple               pomme               f  food fruit
pear                poire               f  food fruit
carrot              carotte             f  food
tomato/tomatoes     tomate              f  food fruit
cake                gâteau/gâteaux      m  food cooked bakery
cookie              biscuit             m  food cooked bakery
egg                 œuf                 m  food
sandwich/sandwiches sandwich/sandwichs  m  food cooked
pizza               pizza               f  food cooked
sausage             saucisse            f  food cooked
salad               salade              f  food cooked
bread               pain                m  food mass bakery
cheese              fromage             m  food mass
soup                soupe               f  food mass cooked liquid
rice                riz                 m  food mass cooked
water               eau                 f  drink mass liquid
milk                lait                m  drink mass liquid
coffee              café                m  drink mass liquid brewed
tea                 thé                 m  drink mass liquid brewed
wine                vin                 m  drink mass
car                 voiture             f  vehicle driven
truck               camion              m  vehicle driven
bus/buses           bus/bus             m  vehicle driven
motorcycle          moto                f  vehicle driven
van                 camionnette         f  vehicle driven
tractor             tracteur            m  vehicle driven
ambulance           ambulance           f  vehicle driven
bike                vélo                m  vehicle driven
boat                bateau/bateaux      m  vehicle
street              rue                 f  way paved
road                route               f  way paved
avenue              avenue              f  way paved
bridge              pont                m  way
path                chemin              m  way soil
tunnel              tunnel              m  way dim
square              place               f  way open
river               rivière             f  way watery
lake                lac                 m  way watery open
stream              ruisseau/ruisseaux  m  way watery
field               champ               m  way soil open
valley              vallée              f  way open
forest              forêt               f  way dim open
desert              désert              m  way open
garden              jardin              m  place green
park                parc                m  place green
house               maison              f  place building
school              école               f  place building public
church/churches     église              f  place building public
museum              musée               m  place building public
market              marché              m  place public
hospital            hôpital/hôpitaux    m  place building public
station             gare                f  place building public
castle              château/châteaux    m  place building
hotel               hôtel               m  place building public
restaurant          restaurant          m  place building public
library/libraries   bibliothèque        f  place building public
village             village             m  place
kitchen             cuisine             f  room
bedroom             chambre             f  room
cellar              cave                f  room
corridor            couloir             m  room
attic               grenier             m  room
workshop            atelier             m  room
candle              bougie              f  light thing
lamp                lampe               f  light thing breakable
lantern             lanterne            f  light thing
fire                feu/feux            m  light
chandelier          lustre              m  light
projector           projecteur          m  light thing machine
blanket             couverture          f  cover
tablecloth          nappe               f  cover
rug                 tapis/tapis         m  cover
sheet               drap                m  cover
curtain             rideau/rideaux      m  cover
table               table               f  furniture flat
bed                 lit                 m  furniture flat soft
sofa                canapé              m  furniture soft
bench/benches       banc                m  furniture flat
armchair            fauteuil            m  furniture soft
chair               chaise              f  furniture soft
piano               piano               m  furniture machine
shelf/shelves       étagère             f  furniture flat
box/boxes           boîte               f  container
bag                 sac                 m  container
suitcase            valise              f  container
drawer              tiroir              m  container
basket              panier              m  container
wardrobe            armoire             f  container
crate               caisse              f  container
stone               pierre              f  missile
ball                ballon              m  missile toy
branch/branches     branche             f  missile
hammer              marteau/marteaux    m  missile tool
axe                 hache               f  tool aspirated
brick               brique              f  missile
rock                rocher              m  missile
vase                vase                m  thing breakable
plate               assiette            f  breakable dish
cup                 tasse               f  breakable dish
bottle              bouteille           f  thing breakable
mirror              miroir              m  thing breakable
bowl                bol                 m  breakable dish
window              fenêtre             f  breakable opening
door                porte               f  opening
wall                mur                 m  built
dress/dresses       robe                f  clothing draped
shirt               chemise             f  clothing
hat                 chapeau/chapeaux    m  clothing
coat                manteau/manteaux    m  clothing draped
shoe                chaussure           f  clothing
scarf/scarves       écharpe             f  clothing draped
book                livre               m  thing text
letter              lettre              f  text
newspaper           journal/journaux    m  text
song                chanson             f  work
story/stories       histoire            f  work
film                film                m  work
painting            tableau/tableaux    m  thing art
statue              statue              f  thing art
key                 clé                 f  small_thing
ring                bague               f  small_thing
umbrella            parapluie           m  thing
phone               téléphone           m  small_thing machine
photo               photo               f  small_thing art
guitar              guitare             f  thing
violin              violon              m  thing
clock               horloge             f  thing machine
computer            ordinateur          m  thing machine
doll                poupée              f  thing toy
flower              fleur               f  plant
tree                arbre               m  plant
agreement           accord              m  document signed
treaty/treaties     traité              m  document signed
report              rapport             m  document issued
law                 loi                 f  document issued
"""

NAME_LINES = """
Marie f
Sophie f
Alice f
Emma f
Julie f
Anne f
Paul m
Lucas m
Thomas m
Louis m
Antoine m
Olivier m
"""


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun or first name. Compared by identity: each exists once."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    gender: str  # "m" or "f"
    tags: frozenset[str]
    compound: Phrase | None = None  # a name of several words, such as "European Economic Area"

    @property
    def is_mass(self) -> bool:
        return "mass" in self.tags

    @property
    def is_name(self) -> bool:
        return "name" in self.tags

    @property
    def tells_gender(self) -> bool:
        """Whether English also uses 'he' or 'she' for it."""
        return "human" in self.tags and "epicene" not in self.tags


def _with_plural(forms: str) -> tuple[str, str]:
    singular, _, plural = forms.partition("/")
    return singular, plural or singular + "s"


def _noun(line: str) -> Noun:
    english, french, gender, *tags = line.split()
    return Noun(*_with_plural(english), *_with_plural(french), gender, frozenset(tags))


def _name(line: str) -> Noun:
    name, gender = line.split()
    return Noun(name, name, name, name, gender, frozenset({"human", "name"}))


NOUNS: tuple[Noun, ...] = tuple(_noun(line) for line in NOUN_LINES.strip().splitlines())
NAMES: tuple[Noun, ...] = tuple(_name(line) for line in NAME_LINES.strip().splitlines())
INSTITUTIONS: tuple[Noun, ...] = tuple(
    Noun(name, name, name, name, COMPOUND_GENDERS[name], frozenset({"institution"}), compound)
    for name, compound in COMPOUNDS.items()
)
NOUN: dict[str, Noun] = {noun.english: noun for noun in (*NOUNS, *NAMES, *INSTITUTIONS)}
_KNOWN: frozenset[str] = frozenset(NOUN) | {tag for noun in NOUN.values() for tag in noun.tags}

# French words that begin with h, without elision before them.
ASPIRATED: frozenset[str] = frozenset(
    form for noun in NOUNS if "aspirated" in noun.tags for form in (noun.french, noun.french_plural)
) | {"huit"}


def matching(wanted: str) -> tuple[Noun, ...]:
    """The nouns of a specification: tags or nouns separated by spaces; '-x' excludes x.

    >>> [noun.english for noun in matching("drink -liquid candle")]
    ['wine', 'candle']
    """
    words = wanted.split()
    asked = {word for word in words if not word.startswith("-")}
    refused = {word[1:] for word in words if word.startswith("-")}
    if not asked | refused <= _KNOWN:
        raise ValueError(f"neither nouns nor tags: {sorted((asked | refused) - _KNOWN)}")

    def belongs(noun: Noun, names: set[str]) -> bool:
        return noun.english in names or not names.isdisjoint(noun.tags)

    return tuple(noun for noun in (*NOUNS, *INSTITUTIONS) if belongs(noun, asked) and not belongs(noun, refused))
