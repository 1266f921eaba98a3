"""The wordings of a searching ALFWorld agent, several for each event. Names in braces are filled in by `alfworld_words`.

An event that ends in ``_alone`` is what the agent says when there is one environment only.
"""

from __future__ import annotations

SENTENCES: dict[str, tuple[str, ...]] = {
    "open_search": (
        "I do not know where to find {what}. All environments are equal, so each looks in a different place: {moves}.",
        "{task}. What I need could be anywhere here, so I spread out: {moves}.",
        "First I need {what}. One look per environment covers more of the room: {moves}.",
        "Nothing tells me yet where {what} might be. I split the search over the environments: {moves}.",
        "To find {what} I send every environment somewhere else: {moves}.",
        "{task}. The search for {what} goes faster side by side: {moves}.",
    ),
    "open_search_alone": (
        "I do not know where to find {what}. To begin with, {moves}.",
        "{task}. I have to search for that: {moves}.",
        "First I need {what}. I start looking: {moves}.",
        "Nothing tells me yet where {what} might be, so {moves}.",
    ),
    "open_hypothesis": (
        "{task}. My guesses for {what}: {kinds}. I test them side by side: {moves}.",
        "Where to expect {what}? At {kinds}, I would say. Each environment tests one guess: {moves}.",
        "Usual places for {what}: {kinds}. Which is it here? {moves}.",
        "I have several hypotheses about {what}, first of all {kinds}. They can be checked at once: {moves}.",
        "{task}. Likely places are {kinds}; I check these hypotheses in parallel: {moves}.",
    ),
    "open_hypothesis_alone": (
        "{task}. I would expect {what} at {kinds}. I test one guess after the other: {moves}.",
        "My first guess for {what}: {kinds}. To check it, {moves}.",
        "A usual place for {what}: {kinds}. Is it so here? {moves}.",
    ),
    "open_focused": (
        "{task}. Few environments in the likeliest places should do: {moves}.",
        "I look for {what} in the likeliest places, with few environments: {moves}.",
        "No need to use every environment yet. The best places for {what} first: {moves}.",
        "The likeliest places for {what}: {kinds}. I begin small: {moves}.",
    ),
    "open_focused_alone": (
        "{task}. I begin with a likely place: {moves}.",
        "I look for {what} in the likeliest place first: {moves}.",
        "The likeliest place for {what}: {kinds}. So {moves}.",
    ),
    "found": (
        "Environment {env} found {names} {at}.",
        "{names}: {at}, as environment {env} shows.",
        "There it is: environment {env} sees {names} {at}.",
        "In environment {env} I read {names} {at}; the same holds in all others.",
        "Environment {env} shows {names} {at}.",
    ),
    "found_alone": (
        "I found {names} {at}.",
        "There it is: {names} {at}.",
        "I see {names} {at}.",
    ),
    "nothing": (
        "No {what} {places}.",
        "{all} there is no {what}.",
        "I see no {what} {places}.",
        "Not a single {what} {places}.",
    ),
    "nothing_many": (
        "No {what} in the {count} places I have just read.",
        "{count} more places without {some}.",
        "None of these {count} places has {some}.",
        "Still no {what} after {count} more looks.",
    ),
    "ruled_out": (
        "No {what}: that rules out {kinds}.",
        "That settles it for {kinds}: no {what}.",
        "I can cross off {kinds}: no {what}.",
    ),
    "shut": ("{places} are closed.", "I find {places} closed.", "{places} turn out to be closed."),
    "shut_one": ("{places} is closed.", "I find {places} closed.", "{places} turns out to be closed."),
    "go_on": (
        "I keep looking for {what}: {moves}.",
        "The search for {what} goes on where nobody has looked: {moves}.",
        "Next places for {what}: {moves}.",
        "On with the search: {moves}.",
        "{moves}.",
    ),
    "go_on_alone": (
        "I keep looking for {what}: {moves}.",
        "Next, {moves}.",
        "On with the search: {moves}.",
        "{moves}.",
    ),
    "go_on_open": (
        "I have to look inside for {what}: {moves}.",
        "What is closed may hide {what}: {moves}.",
        "{moves} to see what is inside.",
        "Opening comes next: {moves}.",
    ),
    "test": (
        "I go on testing {kinds}: {moves}.",
        "Next to be tested for {what}: {kinds}. {moves}.",
        "The guesses left are {kinds} for now: {moves}.",
        "{moves}, which tests {kinds}.",
    ),
    "widen": (
        "The likeliest places are done, so more environments help to find {what}: {moves}.",
        "I widen the search for {what}: {moves}.",
        "Few environments were not enough. Now {moves}.",
    ),
    "meanwhile": (
        "{what} is still missing, so the search goes on beside that: {moves}.",
        "Meanwhile I look for {what}: {moves}.",
        "For {what} I keep searching elsewhere: {moves}.",
    ),
    "settle": (
        "All environments are equal, so I go on in environment {env} alone.",
        "That is all I need. I concentrate on environment {env}.",
        "Environment {env} goes on, and the others stop.",
        "The search is over; environment {env} stands right there and finishes.",
        "I leave the other environments as they are and finish in environment {env}.",
    ),
    "settle_held": (
        "Environment {env} already has {held}, so it is the one to finish, by what environment {finder} has read.",
        "Environment {env} carries {held} and is nearest to the goal; the others stop.",
    ),
    "settle_put": (
        "Environment {env} has already placed {held}, so it uses what environment {finder} has read.",
        "The first one, {held}, is in place in environment {env}; I finish there and stop the others.",
    ),
    "settle_other": (
        "Environment {env} has the fewest steps left and uses what environment {finder} has read.",
        "What environment {finder} has read holds in environment {env} too, and that one is closer to the goal.",
    ),
    "go_to_take": (
        "I go to {place}{in_env} for {thing}.",
        "To get {thing} I go to {place}{in_env}.",
        "{thing} is waiting at {place}, so I walk there{in_env}.",
    ),
    "open_to_take": (
        "I open {place}{in_env} to get at {thing}.",
        "{thing} is inside {place}, which I have to open{in_env}.",
    ),
    "take": (
        "I take {thing}{in_env}.",
        "I pick up {thing} from {place}{in_env}.",
        "{thing} is within reach; I take it{in_env}.",
        "Now I take {thing} from {place}{in_env}.",
    ),
    "go_to_treat": (
        "I have {thing} and carry it to {place}{in_env} to {treat} it.",
        "To {treat} {thing} I need {place}; I go there{in_env}.",
        "Before I put {thing} away I have to {treat} it: off to {place}{in_env}.",
    ),
    "treat": (
        "I {treat} {thing} with {place}{in_env}.",
        "At {place} I can {treat} {thing}{in_env}.",
        "Now I {treat} {thing}{in_env}, as the task asks.",
    ),
    "go_to_put": (
        "I bring {thing} to {place}{in_env}.",
        "{thing} is ready, so I carry it to {place}{in_env}.",
        "Next{in_env} I take {thing} where it belongs, to {place}.",
    ),
    "open_to_put": (
        "{place} is closed{in_env}; I open it to put {thing} in.",
        "Before {thing} can go in I open {place}{in_env}.",
    ),
    "put": (
        "I put {thing} {at}{in_env}.",
        "{thing} goes {at}{in_env}.",
        "Here I leave {thing} {at}{in_env}.",
    ),
    "go_to_use": (
        "I go to {place}{in_env}, where {thing} stands.",
        "With the thing in hand I need light{in_env}: off to {thing} at {place}.",
        "{thing} is at {place}; I carry the thing there{in_env}.",
    ),
    "use": (
        "I turn on {thing}{in_env}.",
        "Now I switch on {thing}{in_env} to look at what I hold.",
        "I use {thing}{in_env}; in its light I can look at what I hold.",
    ),
    "last": ("That completes the task.", "Then the goal is reached.", "This should be all."),
}
