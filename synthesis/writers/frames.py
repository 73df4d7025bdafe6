"""How office people put a request: around a verb phrase, around a thing, in few words, with or without a reason.

Written from general office language. `{vp}` is a verb phrase (`cancel the order`), `{np}` a thing, `{done}` a
participle. Reasons say nothing about which tool is right; the writers leave out those that share a word with a rule.
"""

ASK = [
    "{vp}", "{vp}", "{vp}", "{vp}", "please {vp}", "can you {vp}", "could you {vp}", "i need to {vp}", "need to {vp}",
    "how do i {vp}", "we need to {vp}", "i want to {vp}", "pls {vp}", "help me {vp}", "i'm trying to {vp}",
    "is there a way to {vp}", "who can {vp}", "i'd like to {vp}", "{vp} please", "where can i {vp}",
    "can someone {vp}", "how can we {vp}", "i've been asked to {vp}", "can we {vp}", "i still have to {vp}",
    "let's {vp}", "could someone {vp}", "can i {vp}", "i need someone to {vp}", "i forgot to {vp}",
    "we should {vp}", "how would i {vp}", "would you mind helping me {vp}", "i'm supposed to {vp}",
    "would like to {vp}", "i have to {vp}", "to do: {vp}", "not sure how to {vp}", "could you quickly {vp}",
    "we have to {vp}", "they asked me to {vp}", "what's the best way to {vp}", "are we able to {vp}",
    "go ahead and {vp}", "what do i need to {vp}", "what's the right way to {vp}", "i was told to {vp}",
    "hoping to {vp}", "looking to {vp}", "any way to {vp}", "can you help me {vp}", "i need your help to {vp}",
    "what are the steps to {vp}", "how do we {vp}", "do you know how to {vp}", "i can't figure out how to {vp}",
    "please help me {vp}", "wondering how to {vp}", "we want to {vp}", "we'd like to {vp}", "could we {vp}",
    "is it possible to {vp}", "my task is to {vp}", "what do i use to {vp}", "who do i ask to {vp}",
    "i was about to {vp}", "somebody asked me to {vp}", "i'm about to {vp}", "remind me how to {vp}",
]  # fmt: skip
ASK_ME = ["{vp}", "please {vp}", "can you {vp}", "could you {vp}", "pls {vp}", "would you {vp}", "{vp} please",
    "can someone {vp}", "could you quickly {vp}", "can you please {vp}", "could somebody {vp}"]  # fmt: skip
# in front of a verb of looking: nobody forgot to look up a thing
LOOK = ["{vp}", "{vp}", "please {vp}", "can you {vp}", "could you {vp}", "i need to {vp}", "how do i {vp}",
    "where can i {vp}", "i'd like to {vp}", "need to {vp}", "i want to {vp}", "can i {vp}", "we need to {vp}",
    "help me {vp}", "i'm trying to {vp}", "is there a way to {vp}", "where do i go to {vp}", "pls {vp}",
    "could someone {vp}", "how can i {vp}", "i have to {vp}", "can you help me {vp}", "let me {vp}",
    "do you know where to {vp}", "is it possible to {vp}", "how do we {vp}", "can we {vp}", "i was asked to {vp}",
    "we'd like to {vp}", "what do i use to {vp}", "any way to {vp}", "remind me where to {vp}"]  # fmt: skip
THING = [
    "i need {np}", "need {np}", "{np} please", "where do i find {np}", "can i have {np}", "i'm looking for {np}",
    "looking for {np}", "could i get {np}", "may i see {np}", "i need to see {np}", "can i see {np}",
    "i can't find {np}", "do we have {np}", "where can i find {np}", "{np}", "{np}", "{np}", "where is {np}",
    "where can i look up {np}", "who can give me {np}", "can someone send me {np}", "could you send me {np}",
    "i'd like to see {np}", "can you get me {np}", "let me have {np}", "i was asked for {np}", "i'm after {np}",
    "where is {np} kept", "how do i get to {np}", "just need {np}", "how can i see {np}", "anyone got {np}",
    "i have to check {np}", "can you check {np}", "i want to look at {np}", "mind sending me {np}",
    "can anyone send me {np}", "do you have {np}", "what does {np} look like", "do you know where {np} is",
    "please send me {np}", "i was hoping to see {np}", "could you pull {np} for me", "got a question about {np}",
]  # fmt: skip
DONE = [
    "{np} has to be {done}", "{np} needs to be {done}", "can {np} be {done}", "can we get {np} {done}",
    "{np} should be {done}", "i want {np} {done}", "{np} still has to be {done}", "please have {np} {done}",
    "{np} must be {done}", "i need {np} {done}", "{np} isn't {done} yet, please do it",
    "{np} was never {done}", "can i have {np} {done}", "we need {np} {done}",
]  # fmt: skip
CONDITION = [
    "{when}, {ask}", "{when} - {ask}", "{When}. {Ask}", "{ask}, {when}", "{ask}. {When}", "{ask} since {when}",
    "as {when}, {ask}", "{when}, so {ask}", "{ask} because {when}", "{ask} ({when})", "{when}. {Ask}",
    "{ask} - {when}", "{ask}, as {when}", "{ask} now that {when}", "since {when}, {ask}", "{When}: {ask}",
]  # fmt: skip
HINTED = [
    "{ask}, {hint}", "{hint}, {ask}", "{hint} - {ask}", "{ask} - {hint}", "{hint}. {Ask}", "{ask}. {Hint}",
    "{ask} ({hint})", "{hint}, so {ask}", "{ask}, {hint}",
]  # fmt: skip
# the condition says it all
POINT = ["{when}, can you help", "{When}. What now", "what if {when}", "i need help, {when}", "{when}, what do i do",
    "{when}, what now", "i have a case where {when}", "{when}, who can do it",
    "{when}, so what now", "what do i do when {when}", "{when}, where do i go", "{when}, can you do it"]  # fmt: skip
OPENERS = ["hi {first}, ", "hello {first}, ", "hey {first}, ", "{first}, ", "hi {first}, ", "{first} - ",
    "hi, ", "hello, ", "hey, ", "quick question: ", "morning, ", "hi team, ", "urgent: ", "sorry to ask, ",
    "hi all, ", "quick one: ", "good morning, ", "hello team, "]  # fmt: skip
CLOSERS = [", asap", " today", ", thanks", " by tomorrow", " before noon", ", it's urgent", " this week",
    " when you can", ", cheers", " by friday", " right away", ", thank you", " this afternoon", " by tonight",
    ", no rush", " before lunch", ", thx", " first thing tomorrow"]  # fmt: skip
WHO = ["my boss", "{person}", "{company}", "{person}", "{company}", "our controller", "a colleague", "the CEO", "legal",
    "my lead", "my manager", "the owner", "our partner", "head office", "my colleague {person}",
    "{person} from accounting", "{person} from operations", "the support desk", "my predecessor"]  # fmt: skip
REASONS = [
    "{who} is asking", "{who} asked about it", "{who} asked {lately}", "{who} needs it for a call {soon}",
    "{who} is waiting for it", "{who} called {lately}",
    "{who} wants it done {soon}", "{who} keeps chasing me", "{who} needs it {soon}", "{who} mailed me",
    "{who} is on the phone", "{who} can't do it", "{who} used to do this", "{who} told me to ask here",
    "it came up in a meeting with {who}", "i promised it to {who}", "{who} reminded me {lately}",
    "i'm new here", "couldn't find it in the manual", "it has to be done {soon}", "{who} wrote to me {lately}",
    "already tried twice", "i don't know where to start", "need it {soon}", "we talked about it {lately}",
    "got the request {lately}", "{who} noticed it {lately}", "{who} brought it up {lately}",
    "{who} wants an answer {soon}", "{who} emailed {lately}", "on behalf of {who}", "{who} raised it {lately}",
    "{who} and {person} are waiting", "{person} and {person} both asked", "i owe {who} an answer {soon}",
    "i have a call with {who} {soon}", "i'm meeting {who} {soon}", "{who} is getting impatient",
]  # fmt: skip
SOON = ["today", "by friday", "this week", "before noon", "tomorrow", "by monday", "tonight", "before the meeting",
    "by end of day", "by wednesday", "next week"]  # fmt: skip
LATELY = ["yesterday", "last week", "on monday", "this morning", "last friday", "two weeks ago", "on tuesday"]
# several wishes in one request
SECOND = [" and then {b}", ", and {b}", " and also {b}", ". After that {b}", ", plus {b}", ". Then {b}", ", then {b}",
    ". Also {b}", "; also {b}", " and {b}", " - and {b}", ". While you're at it, {b}",
    ". Once that's done, {b}", ". Oh, and {b}", ", afterwards {b}"]  # fmt: skip
SEVERAL = ["a few things for {who}: {list}", "{list}",
    "need help with these: {list}", "can you do these for me: {list}",
    "on my list: {list}", "we have to {list}", "please {list}", "i need to {list}",
    "{soon} we have to {list}",
    "how do i {list}", "{list}, all {soon} please", "could you {list}",
    "{who} wants me to {list}", "can you help me {list}", "i still have to {list}", "can someone {list}"]  # fmt: skip
VAGUE = ["everything we have on {thing}", "all there is about {thing}", "what do we know about {thing}",
    "i need the full picture of {thing}", "anything on {thing}", "show me whatever we have on {thing}",
    "give me an overview of {thing}", "trying to understand {thing}, what is there", "where do i see {thing}",
    "need all sorts of info on {thing}", "{thing}, whatever you have", "can you dig out all about {thing}",
    "{who} wants to know all about {thing}", "pull together what we have on {thing}"]  # fmt: skip
MANAGE = ["i have to sort out {thing}: {verbs}", "need to clean up {thing}, {verbs}",
    "working on {thing} {soon}, i will have to {verbs} some", "how do i handle {thing}, i mean {verbs}",
    "{thing}: how to {verbs}", "can i {verbs} {thing} here", "taking over {thing}, must {verbs}",
    "who can {verbs} {thing}", "we need to {verbs} {thing}", "{who} left me {thing} to {verbs}"]  # fmt: skip
# a wish told by what is missing or wrong, without its verb
NEEDS: dict[str, list[str]] = {
    "create": [
        "{company} is still waiting for {np}", "we are missing {np} for {company}",
        "{np} is missing for {company}", "there is no {bare} for {company} yet",
        "{company} expects {np} from us", "can {company} get {np}", "we need {np} for {company}",
        "{person} needs {np}", "{company} asked us for {np}"],
    "read": ["what does {np} say", "what's in {np}", "does {np} look right to you", "can you check {np}",
        "i can't find {np}", "where is {np}", "can i take a quick look at {np}", "{company} asks for {np}",
        "does {np} look right", "let's check {np} first", "{company} wants to see {np}", "i can't see {np}"],
    "list": ["which {bare} do we have", "how many {bare} are there", "what {bare} are there",
        "where do i see all {bare}", "i only see some {bare}, where are the rest", "full list of {bare}",
        "what {bare} do we have",
        "what {bare} can i pick from", "i need all {bare}", "do we have {bare} for {company}"],
    "update": ["{np} is out of date", "something in {np} is wrong", "{np} has a mistake", "{np} isn't right anymore",
        "{np} should look different", "{company} gave us new details for {np}", "typo in {np}"],
    "delete": ["{np} shouldn't be there anymore", "we don't need {np} any longer", "{np} was entered by mistake",
        "{np} must go", "{np} is a duplicate", "{np} is wrong, out with it", "why is {np} still there, it must go"],
    "cancel": ["{company} doesn't want {np} anymore", "{np} must not go ahead", "{np} was a mistake, stop it",
        "{np} is off", "{np} shouldn't happen", "we changed our mind about {np}"],
    "send": ["{company} hasn't got {np} so far", "{np} must go out to {company}", "{company} is waiting for {np}",
        "{np} should reach {company} tomorrow"],
    "post": ["{np} isn't in the books yet", "{np} came in {lately}, put it in",
        "{np} from {day} is missing in the system"],
    "search": ["which {bare} match {company}", "is there any {bare} for {company}", "{np} for {company}, where"],
    "check": ["is {np} ok", "is {np} valid", "can we rely on {np}", "i am not sure {np} is right"],
}  # fmt: skip
FOUND = {"summarize": "read", "find": "list", "submit": "create", "generate": "create"}
