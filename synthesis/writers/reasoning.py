"""Sentences of reasoning, step by step, for the offline trace writer. `{when}` is a case of a rule, `{what}` what a
description says, `{said}` words of the query, `{task}` what is asked (`cancel a payment`).
"""

INTENT_ONE = [
    "'{said}': a request to {task}.",
    "To {task} is what somebody wants, told by the words '{said}'.",
    "{thing} is the matter here; the request says '{said}'.",
    "to {task} is the aim, and '{said}' is the part that counts.",
    "'{said}', so the person wants to {task}.",
    "The words '{said}' ask to {task}.",
    "The wish to {task} shows in '{said}'.",
    "{thing} is asked about, since the message speaks of '{said}'.",
    "Need: {task}. Its situation is told as '{said}'.",
    "From '{said}' I understand the wish to {task}.",
    "Somebody asks to {task}; what matters is '{said}'.",
    "'{said}' means the person needs to {task}.",
    "Whoever says '{said}' wants to {task}.",
    "{task}, that is the intent behind '{said}'.",
    "In this request '{said}' stands for the need to {task}.",
    "What '{said}' asks for is to {task}.",
]
INTENT_MANY = [
    "'{said}': several things are asked, namely {task}.",
    "{task} are all wanted in one message, as '{said}' shows.",
    "{thing} and more is needed: {task}.",
    "The message covers {task}; it starts from '{said}'.",
    "{thing} is one part, and in all the request is about {task}.",
    "With '{said}' the person needs {task}.",
    "'{said}' holds several wishes: {task}.",
    "'{said}' asks for {task} together.",
]
# restated by its kind alone
WISHED = [
    "Somebody wants {wish}.", "Wish: {wish}.", "Needed: {wish}.", "They want {wish}.", "Wanted: {wish}.",
    "Asked for: {wish}.", "Request: {wish}.", "Aim: {wish}.", "Goal: {wish}.", "Task: {wish}.", "They need {wish}.",
    "The person wants {wish}.", "The user needs {wish}.", "One wants {wish}.", "The point is {wish}.",
    "Here {wish} is wanted.",
]  # fmt: skip
PERMISSIONS = [
    "Access for {thing} is allowed here, and services without it are left out.",
    "The access of this person covers {thing}, so the services for it remain.",
    "They may use what concerns {thing}; other access is not needed.",
    "Access to {thing} holds, so only services for it remain.",
    "Since access covers {thing}, nothing else is considered.",
]
APIS_MANY = [
    "{apis} all deal with {thing}.", "Services for {thing} are {apis}.", "For {thing} there are {apis}.",
    "{thing} could come from {apis}.", "Looking at {thing}, {apis} are possible.",
    "{apis} are the services to compare.", "The services in question are {apis}.",
    "Both in name and in purpose {apis} are near to {thing}.", "I compare {apis} first.",
]  # fmt: skip
APIS_ONE = [
    "{apis} is the service for {thing}.", "This belongs to {apis}, which deals with {thing}.",
    "{thing} is handled by {apis}.", "The service that deals with {thing} is {apis}.", "Only {apis} is concerned.",
    "All of it lies with {apis}.", "{apis} is where {thing} belongs.", "Within {apis} the operations differ.",
]  # fmt: skip
ENDPOINTS = [
    "The look-alikes are {names}.", "Close to each other are {names}.", "It comes down to {names}.",
    "{names} read almost the same.", "Between {names} the words alone do not decide.", "I consider {names}.",
    "{names} could each be meant.", "What remains is {names}.", "Tempting options are {names}.",
    "{names} differ in little.",
]  # fmt: skip
# the contenders in order, where what they do is all that decides. The same word stands before the first everywhere: a
# model of one layer knows what to name by the word it has just written, and learns it once instead of six times
NEAREST = [
    "Closest is {first}, then {others}.", "Nearest is {first}, then {others}.",
    "Closest by purpose is {first}, followed by {others}.", "Nearest by description is {first}, then {others}.",
    "First choice is {first}, then {others}.", "First candidate is {first}, and after it {others}.",
]  # fmt: skip
RULE = [
    "{code} decides: when {when}, it is {name}.",
    "By {code}, {when} means {name}.",
    "{code} says that if {when}, {name} is right.",
    "The rule {code} settles it: {when} leads to {name}.",
    "Here {code} applies: {when}, hence {name}.",
    "{code} is the rule for this: {when} goes to {name}.",
    "Since {when}, {code} leads to {name}.",
    "{when} is the condition in {code} that holds, and it brings {name}.",
]
# a case told as a thing (`a call-off against a framework agreement`)
RULE_THING = [
    "By {code}, {when} means {name}.",
    "The rule {code} settles it: {when} leads to {name}.",
    "Here {code} applies: {when}, hence {name}.",
    "{code} is the rule for this: {when} goes to {name}.",
    "{code} decides: for {when} it is {name}.",
    "With {when}, {code} leads to {name}.",
]
NOT_THING = [
    "{name} is for another case: {when}.", "Not {name}, which is for {when}.", "{name} would need {when}.",
    "{name} is left for {when}.", "For {when} it would be {name}.",
]  # fmt: skip
RULE_TO = [
    "{code} decides: {when}, it is {name}.",
    "By {code}, {name} is the one {when}.",
    "{code} says that {when} {name} is right.",
    "The rule {code} settles it: {when}, take {name}.",
    "Here {code} applies: {when} means {name}.",
    "{code} is the rule for this: {when} comes {name}.",
    "What {code} says fits this request: {when}, {name}.",
    "{code} has the clause for it: {when}, use {name}.",
]
# a case that the rule leaves to what its tool does
UNSAID = [
    "{code} takes {target} for its own condition only, which is not asked; {when}, it is {name}.",
    "The condition of {code} for {target} does not hold, so {when} it is {name}.",
    "By {code} only that condition leads to {target}; {when} it is {name}.",
    "Nothing in the request meets the condition of {code}, and {when} there is {name}.",
]
TOLD = [
    "{code} decides: {sentence}.",
    "The rule {code} says: {sentence}.",
    "Here {code} applies: {sentence}.",
    "By {code} it is clear: {sentence}.",
    "{code} is the rule for this: {sentence}.",
    "What settles it is {code}: {sentence}.",
]
NOT = [
    "{name} would need that {when}.", "{name} is for another case: {when}.", "If {when}, {name} would fit.",
    "{name} applies only if {when}.", "Not {name}, since that is for when {when}.",
    "{name} is left for the case that {when}.",
]  # fmt: skip
NOT_TO = [
    "{name} is there {when}, which is another case.", "{name} is for another need: {when}.",
    "{name} would be right {when}.", "One takes {name} {when}; that is not asked.", "Not {name}, which serves {when}.",
    "{name} is only {when}.",
]  # fmt: skip
DEAD = [
    "{name} reads the same but is deprecated.", "{name} is no option, it is deprecated.",
    "{name} looks alike and is deprecated.",
    "Not {name}: deprecated.", "{name} is deprecated, so it drops out.", "The similar {name} is deprecated.",
]  # fmt: skip
DOES = [
    "{name} serves {what}.",
    "{name} is there {what}.",
    "What {name} does: {do}.",
    "{name} covers it: {do}.",
    "{name} fits, its description says {do}.",
    "The part '{do}' belongs to {name}.",
]
# the same, with the words of the request that it answers
ANSWERS = [
    "{name} goes with '{said}', it is there {what}.",
    "{name} goes with '{said}': {do}.",
    "{name} covers '{said}': {do}.",
    "{name} fits '{said}', its description says {do}.",
    "{name} answers '{said}': {do}.",
]
ELSE = [
    "{name} is near, but it is there {what}.",
    "{name} is for something else: {do}.",
    "Not {name}, which is there {what}.",
    "{name} differs: {do}.",
    "{name} would be for another need, {what}.",
]
# of the next in order, without its name: named as often as the answer, it would be taken for it
SECOND = [
    "The second is near, but it is there {what}.",
    "The second is for something else: {do}.",
    "Not the second, which is there {what}.",
    "The second differs: {do}.",
    "The second would be for another need, {what}.",
]
COMMIT = ["So {names}.", "I choose {names}.", "The answer is {names}.", "Therefore {names}.", "That leaves {names}.",
    "Hence {names}.", "{names} it is.", "I take {names}.", "Thus {names}.", "In the end {names}.",
    "The choice is {names}.", "My answer: {names}."]  # fmt: skip
CLUE = [
    "'{clue}' shows which case holds.", "The clue is '{clue}'.", "What counts is '{clue}'.",
    "'{clue}' is the sign to follow.",
    "The words '{clue}' tell the case.", "'{clue}' decides between them.",
]  # fmt: skip
