"""Gold written by hand for sentences built by hand, against the output of the realisers."""

from __future__ import annotations

import pytest

from regard.data.synthetic.lexicon import (
    ADJECTIVE,
    CONNECTORS,
    DATES,
    DEGREES,
    FREQUENCIES,
    NOUN,
    NUMERALS,
    PAST_TIMES,
    PREPOSITIONS,
    VERB,
)
from regard.data.synthetic.meaning import Clause, Coordination, Gap, Nominal, Place, Pronoun, Sentence
from regard.data.synthetic.translation import SyntheticPair, write_pair


def a_noun(name: str, determiner: str = "the", **facts: object) -> Nominal:
    adjectives = tuple(ADJECTIVE[word] for word in str(facts.pop("adjectives", "")).split())
    return Nominal(noun=NOUN[name], determiner=determiner, adjectives=adjectives, **facts)  # type: ignore[arg-type]


def split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def links(pair: SyntheticPair) -> set[str]:
    return {f"{pair.source_words[i]}~{pair.target_words[j]}" for i, j in pair.alignment}


def tree(words, pos, heads, relations) -> list[str]:
    """One line per word: form, tag, relation, head."""
    return [
        f"{word} {tag} {relation} {words[head] if head >= 0 else '-'}"
        for word, tag, head, relation in zip(words, pos, heads, relations, strict=True)
    ]


def animal_and_street(reason: str) -> SyntheticPair:
    animal, street = a_noun("animal"), a_noun("street")
    antecedent = animal if reason == "tired" else street
    return write_pair(
        Sentence(
            main=Clause(subject=animal, verb=VERB["cross"], object=street, past=True, polarity="not"),
            connector=CONNECTORS["because"],
            second=Clause(
                subject=Pronoun(gender=antecedent.gender, antecedent=antecedent),
                adjective=ADJECTIVE[reason],
                degree=DEGREES["too"],
                past=True,
            ),
        )
    )


def test_animal_too_tired() -> None:
    pair = animal_and_street("tired")
    assert pair.source == "The animal did not cross the street because it was too tired."
    assert pair.target == "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
    assert pair.source_words == split("The animal did not cross the street because it was too tired .")
    assert pair.target_words == split("L' animal n' a pas traversé la rue parce qu' il était trop fatigué .")
    assert pair.alignment == {
        (0, 0), (1, 1), (2, 3), (3, 2), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (7, 9),
        (8, 10), (9, 11), (10, 12), (11, 13), (12, 14),
    }  # fmt: skip
    assert pair.source_pos == split("DET NOUN AUX PART VERB DET NOUN SCONJ PRON AUX ADV ADJ PUNCT")
    assert pair.source_heads == (1, 4, 4, 4, -1, 6, 4, 11, 11, 11, 11, 4, 4)
    assert pair.source_relations == split("det nsubj aux advmod root det obj mark nsubj cop advmod advcl punct")
    assert pair.target_pos == split("DET NOUN ADV AUX ADV VERB DET NOUN SCONJ SCONJ PRON AUX ADV ADJ PUNCT")
    assert pair.target_heads == (1, 5, 5, 5, 5, -1, 7, 5, 13, 8, 13, 13, 13, 5, 5)
    assert pair.target_relations == split(
        "det nsubj advmod aux advmod root det obj mark fixed nsubj cop advmod advcl punct"
    )
    assert pair.antecedents == ((8, 1),)
    assert pair.target_antecedents == ((10, 1),)


def test_street_too_wide() -> None:
    pair = animal_and_street("wide")
    assert pair.source == "The animal did not cross the street because it was too wide."
    assert pair.target == "L'animal n'a pas traversé la rue parce qu'elle était trop large."
    assert pair.antecedents == ((8, 6),)
    assert pair.target_antecedents == ((10, 7),)


def test_european_economic_area() -> None:
    agreement = a_noun("agreement")
    agreement.place = Place(PREPOSITIONS["on a topic"], a_noun("European Economic Area"))
    date = next(date for date in DATES if date.name == "in August 1992")
    pair = write_pair(Sentence(main=Clause(subject=agreement, verb=VERB["sign"], past=True, passive=True, time=date)))
    assert pair.source == "The agreement on the European Economic Area was signed in August 1992."
    assert pair.target == "L'accord sur la zone économique européenne a été signé en août 1992."
    assert links(pair) == {
        "The~L'", "agreement~accord", "on~sur", "the~la", "European~européenne", "Economic~économique",
        "Area~zone", "was~a", "was~été", "signed~signé", "in~en", "August~août", "1992~1992", ".~.",
    }  # fmt: skip
    assert tree(pair.target_words, pair.target_pos, pair.target_heads, pair.target_relations) == [
        "L' DET det accord",
        "accord NOUN nsubj:pass signé",
        "sur ADP case zone",
        "la DET det zone",
        "zone NOUN nmod accord",
        "économique ADJ amod zone",
        "européenne ADJ amod zone",
        "a AUX aux signé",
        "été AUX aux:pass signé",
        "signé VERB root -",
        "en ADP case août",
        "août NOUN obl signé",
        "1992 NUM nummod août",
        ". PUNCT punct signé",
    ]


def test_possessor_and_contraction() -> None:
    cat = a_noun("cat", possessor=a_noun("king"), adjectives="small black")
    pair = write_pair(Sentence(main=Clause(subject=cat, verb=VERB["sleep"], frequency=FREQUENCIES["often"])))
    assert pair.source == "The king's small black cat often sleeps."
    assert pair.target == "Le petit chat noir du roi dort souvent."
    assert links(pair) == {
        "'s~Le", "'s~du", "The~du", "king~roi", "small~petit", "black~noir", "cat~chat", "often~souvent",
        "sleeps~dort", ".~.",
    }  # fmt: skip
    assert tree(pair.source_words, pair.source_pos, pair.source_heads, pair.source_relations) == [
        "The DET det king",
        "king NOUN nmod:poss cat",
        "'s PART case king",
        "small ADJ amod cat",
        "black ADJ amod cat",
        "cat NOUN nsubj sleeps",
        "often ADV advmod sleeps",
        "sleeps VERB root -",
        ". PUNCT punct sleeps",
    ]
    assert tree(pair.target_words, pair.target_pos, pair.target_heads, pair.target_relations)[4:6] == [
        "du ADP case roi",
        "roi NOUN nmod chat",
    ]


def test_object_relative_with_attractor() -> None:
    apple = a_noun("apple", plural=True)
    apple.relative = Clause(subject=a_noun("girl"), verb=VERB["buy"], past=True, object=Gap(apple))
    pair = write_pair(Sentence(main=Clause(subject=apple, adjective=ADJECTIVE["red"], polarity="not")))
    assert pair.source == "The apples that the girl bought are not red."
    assert pair.target == "Les pommes que la fille a achetées ne sont pas rouges."
    assert links(pair) == {
        "The~Les", "apples~pommes", "that~que", "the~la", "girl~fille", "bought~a", "bought~achetées",
        "are~sont", "not~ne", "not~pas", "red~rouges", ".~.",
    }  # fmt: skip
    assert tree(pair.source_words, pair.source_pos, pair.source_heads, pair.source_relations) == [
        "The DET det apples",
        "apples NOUN nsubj red",
        "that PRON obj bought",
        "the DET det girl",
        "girl NOUN nsubj bought",
        "bought VERB acl:relcl apples",
        "are AUX cop red",
        "not PART advmod red",
        "red ADJ root -",
        ". PUNCT punct red",
    ]


def test_question_links_do_to_est_ce_que() -> None:
    pair = write_pair(
        Sentence(
            main=Clause(subject=a_noun("Alice", ""), verb=VERB["eat"], past=True, object=a_noun("egg", "a")),
            question="yes-no",
        )
    )
    assert pair.source == "Did Alice eat an egg?"
    assert pair.target == "Est-ce qu'Alice a mangé un œuf ?"
    assert links(pair) == {
        "Did~Est-ce", "Did~qu'", "Did~a", "Alice~Alice", "eat~mangé", "an~un", "egg~œuf", "?~?",
    }  # fmt: skip


def test_object_pronoun() -> None:
    girl, letters = a_noun("girl"), a_noun("letter", plural=True)
    pair = write_pair(
        Sentence(
            main=Clause(subject=girl, verb=VERB["write"], past=True, object=letters),
            connector=CONNECTORS["but"],
            second=Clause(
                subject=girl,
                silent_subject=True,
                verb=VERB["send"],
                past=True,
                polarity="not",
                object=Pronoun(gender="f", plural=True, antecedent=letters),
            ),
        )
    )
    assert pair.source == "The girl wrote the letters but did not send them."
    assert pair.target == "La fille a écrit les lettres mais ne les a pas envoyées."
    assert pair.antecedents == ((9, 4),)
    assert pair.target_antecedents == ((8, 5),)


def _simple(subject: Nominal | Coordination | Pronoun, verb: str, **facts: object) -> Sentence:
    return Sentence(main=Clause(subject=subject, verb=VERB[verb], **facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sentence", "source", "target"),
    [
        (
            _simple(Pronoun(gender="m", person=1), "love", object=a_noun("aunt", "my"), polarity="not"),
            "I do not love my aunt.",
            "Je n'aime pas ma tante.",
        ),
        (
            _simple(Pronoun(gender="m", person=1), "drink", past=True, object=a_noun("water", "some")),
            "I drank some water.",
            "J'ai bu de l'eau.",
        ),
        (
            _simple(a_noun("waiter"), "drink", past=True, object=a_noun("wine", "any"), polarity="not"),
            "The waiter did not drink any wine.",
            "Le serveur n'a pas bu de vin.",
        ),
        (
            _simple(a_noun("hero"), "use", object=a_noun("axe", "this", adjectives="old")),
            "The hero uses this old axe.",
            "Le héros utilise cette vieille hache.",
        ),
        (
            _simple(a_noun("man", "this", adjectives="old"), "see", past=True, object=a_noun("owl")),
            "This old man saw the owl.",
            "Ce vieil homme a vu le hibou.",
        ),
        (
            _simple(a_noun("tree", "a", adjectives="beautiful"), "fall", past=True, time=PAST_TIMES["last year"]),
            "A beautiful tree fell last year.",
            "Un bel arbre est tombé l'année dernière.",
        ),
        (
            _simple(
                Coordination(first=a_noun("sister", "our"), second=a_noun("queen")), "arrive", past=True
            ),
            "Our sister and the queen arrived.",
            "Notre sœur et la reine sont arrivées.",
        ),
        (
            _simple(a_noun("dog"), "obey", object=a_noun("child", plural=True)),
            "The dog obeys the children.",
            "Le chien obéit aux enfants.",
        ),
        (
            _simple(a_noun("woman"), "talk about", object=a_noun("village"), polarity="never"),
            "The woman never talks about the village.",
            "La femme ne parle jamais du village.",
        ),
        (
            _simple(a_noun("boy", plural=True), "wait for", object=a_noun("bus", "a", adjectives="red")),
            "The boys wait for a red bus.",
            "Les garçons attendent un bus rouge.",
        ),
        (
            _simple(
                Pronoun(gender="f", human=True),
                "buy",
                past=True,
                object=a_noun("car", "", plural=True, numeral=NUMERALS["eight"], adjectives="big red"),
            ),
            "She bought eight big red cars.",
            "Elle a acheté huit grandes voitures rouges.",
        ),
        (
            _simple(
                a_noun("king"),
                "buy",
                past=True,
                object=a_noun("flower", "some", plural=True, adjectives="beautiful"),
            ),
            "The king bought some beautiful flowers.",
            "Le roi a acheté de belles fleurs.",
        ),
        (
            _simple(
                a_noun("Emma", ""),
                "give",
                past=True,
                object=a_noun("scarf", "her"),
                recipient=a_noun("princess", "this"),
            ),
            "Emma gave her scarf to this princess.",
            "Emma a donné son écharpe à cette princesse.",
        ),
        (
            Sentence(main=Clause(subject=a_noun("mouse", plural=True), adjective=ADJECTIVE["hungry"], past=True)),
            "The mice were hungry.",
            "Les souris avaient faim.",
        ),
        (
            Sentence(
                main=Clause(
                    subject=a_noun("man"),
                    verb=VERB["sing"],
                    place=Place(PREPOSITIONS["near"], a_noun("school", plural=True)),
                ),
                question="where",
            ),
            "Where does the man sing near the schools?",
            "Où est-ce que l'homme chante près des écoles ?",
        ),
        (
            _simple(a_noun("river"), "cross", passive=True, agent=a_noun("king"), polarity="not"),
            "The river is not crossed by the king.",
            "La rivière n'est pas traversée par le roi.",
        ),
        (
            Sentence(main=Clause(subject=a_noun("child"), verb=VERB["eat"], past=True), question="what"),
            "What did the child eat?",
            "Qu'est-ce que l'enfant a mangé ?",
        ),
    ],
)  # fmt: skip
def test_texts(sentence: Sentence, source: str, target: str) -> None:
    pair = write_pair(sentence)
    assert (pair.source, pair.target) == (source, target)
