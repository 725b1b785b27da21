"""Sentences with the ambiguous words bank, spring and run, whose senses follow from the context."""

from __future__ import annotations

import re
from dataclasses import dataclass

from regard.data.synthetic.dice import Dice
from regard.data.synthetic.splits import draw_split
from regard.utils.errors import unknown

# word | sense | sentences; [a;b;c] is a choice
_LINES = """
bank   | money  | [Marie;The king;My uncle;The waiter;Our doctor;Thomas] [deposited money at;took a loan from;opened an account at;works as a clerk at;paid his rent through;borrowed money from] the [old;new;small;big;local] bank [yesterday;last week;this morning;in the city]
bank   | money  | the [old;new;small;big;local] bank [lent;paid;owed;transferred] [some money;a large sum;ten coins;a loan] to [the farmer;the actress;my aunt;the museum;Antoine] [yesterday;last week;last year]
bank   | river  | [Marie;The king;My uncle;The fisherman;Two ducks;Thomas] [sat on;walked along;slept on;waited on;rested on;played on] the [old;new;small;big;muddy] bank [of the river;of the stream;near the boats;under the willows]
bank   | river  | the [green;steep;small;big;muddy] bank [of the river;of the stream;of the lake] was [flooded;covered with reeds;full of frogs;washed away] [yesterday;last week;last year]
spring | season | [Marie;The queen;My sister;The farmer;Louis;Our children] [plants flowers;paints the house;visits the park;buys a new hat;cleans the garden;goes hiking] [in the;every;early in the;late in the] [warm;wet;mild;short;long] spring
spring | season | the [warm;wet;mild;short;long] spring [came after;followed] [a cold winter;a hard winter;months of snow] and the [trees;flowers;meadows;gardens] [were green;bloomed;were full of bees]
spring | water  | [Marie;The queen;My sister;The goats;Louis;Our children] [drank from;filled a bottle at;washed in;rested near;found;swam in] the [cold;clear;small;hidden;deep] spring [in the forest;below the rocks;near the village;on the hill]
spring | water  | the [cold;clear;small;hidden;deep] spring [feeds;fills;flows into] the [stream;lake;pond;fountain] [below the rocks;near the village;behind the castle]
spring | coil   | [Marie;The mechanic;My sister;The workers;Louis;Our neighbour] [replaced;bent;oiled;tightened;broke;removed] the [steel;rusty;small;broken;strong] spring [of the clock;of the sofa;in the lock;under the seat;of the mattress]
spring | coil   | the [steel;rusty;small;broken;strong] spring [of the clock;in the lock;of the mattress;inside the toy] [snapped;squeaked;bounced;was too stiff] [yesterday;last week;this morning]
run    | move   | [the;my;our;some;two;three] [boys;dogs;sisters;soldiers;horses;children] run [across the field;to the station;after the ball;through the park;along the river] [every day;in the morning;very fast;without a pause]
run    | move   | [the;my;our;some;two;three] [girls;goats;brothers;neighbours;rabbits;waiters] run [away from the wolf;home in the rain;up the hill;down the stairs] [every evening;quickly;at night;and jump]
run    | manage | [the;my;our;some;two;three] [sisters;brothers;aunts;owners;partners;friends] run [a small hotel;the restaurant;a family business;the bakery;two shops] [in the village;near the station;with success;all year]
run    | manage | [the;my;our;some;two;three] [women;managers;uncles;directors;farmers;waitresses] run [the company;a big farm;the museum;the whole office;the library] [very well;every day;with little money;for the city]
run    | work   | [the;my;our;some;two;three] [engines;machines;computers;clocks;motors;lamps] run [on electricity;on petrol;without a pause;on batteries;all night] [in the workshop;every day;in the factory;and hum]
run    | work   | [the;my;our;some;two;three] [pumps;projectors;programs;heaters;trains;fans] run [on cheap fuel;too loudly;at full power;on solar power;day and night] [in the cellar;again;after the repair;very well]
"""  # noqa: E501
_CHOICE = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True)
class SenseSentence:
    """A sentence with an ambiguous word, its position and its sense."""

    text: str
    word: str
    start: int  # index of the first character of the word
    sense: str


_PATTERNS = tuple(tuple(part.strip() for part in line.split("|")) for line in _LINES.strip().splitlines())
SENSES: dict[str, tuple[str, ...]] = {
    word: tuple(dict.fromkeys(sense for other, sense, _ in _PATTERNS if other == word))
    for word in dict.fromkeys(word for word, _, _ in _PATTERNS)
}


def sense_sentences(word: str, split: str = "train", *, count: int | None = None, seed: int = 0) -> list[SenseSentence]:
    """Sentences with one of the words of SENSES, with about equally frequent senses: train, validation or test."""
    if word not in SENSES:
        raise unknown("word with several senses", word, SENSES)
    count = {"train": 300, "validation": 30, "test": 90}.get(split) if count is None else count
    return draw_split(f"senses of {word}", split, lambda dice: _draw(dice, word), _text, count=count, seed=seed)


def _draw(dice: Dice, word: str) -> SenseSentence:
    sense = dice.pick(SENSES[word])
    pattern = dice.pick([text for other, which, text in _PATTERNS if (other, which) == (word, sense)])
    text = _CHOICE.sub(lambda choice: dice.pick(choice[1].split(";")), pattern) + "."
    text = text[0].upper() + text[1:]
    found = re.search(rf"\b{word}\b", text)
    assert found is not None, f"the pattern of {sense} has no {word}"
    return SenseSentence(text, word, found.start(), sense)


def _text(sentence: SenseSentence) -> str:
    return sentence.text
