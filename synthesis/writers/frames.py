"""How office people put a request: around a verb phrase, around a thing, in few words, with or without a reason.

Written from general office language. `{vp}` is a verb phrase (`cancel the order`), `{np}` a thing, `{done}` a
participle. Reasons say nothing about which tool is right; the writers leave out those that share a word with a rule.
"""

ASK = [
    "{vp}", "{vp}", "{vp}", "please {vp}", "can you {vp}", "could you {vp}", "i need to {vp}", "need to {vp}",
    "how do i {vp}", "we need to {vp}", "want to {vp}", "pls {vp}", "help me {vp}", "trying to {vp}",
    "is there a way to {vp}", "who can {vp}", "i'd like to {vp}", "time to {vp}", "{vp} for me please",
    "where can i {vp}", "somebody has to {vp}", "how can we {vp}", "{vp} please", "i was told to {vp}",
    "can we {vp}", "what do i do to {vp}", "i still have to {vp}", "let's {vp}", "could someone {vp}",
    "is it ok to {vp}", "need someone to {vp}", "i forgot to {vp}", "we should {vp}", "how would i {vp}",
    "next step: {vp}", "would you mind helping me {vp}", "supposed to {vp}", "{vp}, how", "would like to {vp}",
    "any chance to {vp}", "i have to {vp}", "first time i {vp}, what now", "to do: {vp}", "don't know how to {vp}",
    "our task is to {vp}", "could you quickly {vp}", "i want to {vp}", "we have to {vp}", "they asked me to {vp}",
    "it's on me to {vp}", "best way to {vp}", "are we able to {vp}", "do i have to {vp} myself", "go ahead and {vp}",
]  # fmt: skip
ASK_ME = ["{vp}", "please {vp}", "can you {vp}", "could you {vp}", "pls {vp}", "would you {vp}", "{vp} please",
    "when you can, {vp}", "{vp} if possible", "can someone {vp}"]  # fmt: skip
THING = [
    "i need {np}", "need {np}", "{np} please", "where do i find {np}", "can i have {np}", "looking for {np}",
    "i am missing {np}", "could i get {np}", "may i see {np}", "i want {np}", "need to see {np}",
    "i can't find {np}", "do we have {np}", "waiting for {np}", "someone wants {np}", "{np}, where is it",
    "{np}?", "{np}", "{np}", "asking for {np}", "where can i look up {np}", "who can give me {np}", "searching {np}",
    "got to check {np}", "want a look at {np}", "is there {np} somewhere", "let me have {np}", "i was asked for {np}",
    "need {np} again", "where is {np} kept", "how do i get to {np}", "i lost {np}", "curious about {np}",
    "just need {np}", "how can i see {np}", "anyone got {np}",
]  # fmt: skip
DONE = [
    "{np} has to be {done}", "{np} needs to be {done}", "can {np} be {done}", "get {np} {done}",
    "{np} should be {done}", "i want {np} {done}", "{np} still has to be {done}", "please have {np} {done}",
    "{np} must be {done}", "how does {np} get {done}", "who gets {np} {done}", "{np} isn't {done} yet, please do it",
    "{np} was never {done}", "can i have {np} {done}", "{np} is waiting to be {done}",
]  # fmt: skip
CONDITION = [
    "{when}, {ask}", "{when} - {ask}", "{when}. {Ask}", "{ask}, {when}", "{ask}. {When}", "{ask} since {when}",
    "as {when}, {ask}", "{when}, so {ask}", "because {when}: {ask}", "{ask} ({when})", "{when} now. {Ask}",
    "{ask} - {when}", "turns out {when}, {ask}", "{when}, what now: {ask}", "given that {when}, {ask}",
    "{ask}, by the way {when}", "{When}: {ask}", "case: {when}. {Ask}",
]  # fmt: skip
HINTED = [
    "{ask}, {hint}", "{hint}, {ask}", "{hint} - {ask}", "{ask} - {hint}", "{hint}. {Ask}", "{ask}. {Hint}",
    "{ask} ({hint})", "{hint}, so {ask}", "{ask}, {hint}",
]  # fmt: skip
# the condition says it all
POINT = ["{when}, can you do that", "{When}. How", "what if {when}", "i need help, {when}", "{when}, what do i do",
    "{when}, please", "i have a case where {when}", "{when}, who can do it", "note that {when}", "{when}, so what now",
    "how do i do it when {when}", "say {when}, where do i go", "{when}, please take care of it"]  # fmt: skip
OPENERS = ["hi, ", "hello, ", "hey, ", "quick question: ", "morning, ", "hi team, ", "urgent: ", "sorry to ask, ",
    "hi all, ", "quick one: ", "good morning, ", "hello team, "]  # fmt: skip
CLOSERS = [", asap", " today", ", thanks", " by tomorrow", " before noon", ", it's urgent", " this week",
    " when you can", ", cheers", " by friday", " right away", ", thank you", " this afternoon", " by tonight",
    ", no rush", " before lunch", ", thx", " first thing tomorrow"]  # fmt: skip
WHO = ["my boss", "{person}", "{company}", "the front desk", "our controller", "a colleague", "the CEO", "legal",
    "the office in the next building", "my lead", "the help desk", "someone upstairs", "the owner", "our partner",
    "{person} from accounting", "{person} from operations", "the support desk", "my predecessor"]  # fmt: skip
REASONS = [
    "{who} is asking", "{who} asked about it", "{who} is waiting for it", "{who} called about it twice",
    "{who} wants it done {soon}", "{who} keeps chasing me", "{who} needs it {soon}", "{who} mailed me",
    "{who} is on the phone", "{who} can't do it", "{who} used to do this", "{who} told me to ask here",
    "it came up in the meeting with {who}", "promised it to {who}", "{who} forgot", "{who} is away",
    "i'm new here", "my first time", "couldn't find it in the manual", "it has to be done {soon}",
    "already tried twice", "no idea where to start", "need it {soon}", "we talked about it {lately}",
    "it was on my list since {lately}", "got the request {lately}", "{who} noticed it {lately}",
]  # fmt: skip
SOON = ["today", "by friday", "this week", "before noon", "tomorrow", "by monday", "tonight", "before the meeting",
    "by end of day", "until wednesday", "in an hour", "next week"]  # fmt: skip
LATELY = ["yesterday", "last week", "on monday", "this morning", "last friday", "two weeks ago", "on tuesday"]
# several wishes in one request
SECOND = [" and then {b}", ", and {b}", " and also {b}", ". After that {b}", ", plus {b}", ". Then {b}", ", then {b}",
    ". Also {b}", "; also {b}", " and {b}", " - and {b}", ". While you're at it, {b}", " before we {b}",
    ". Once that's done, {b}", ". Oh, and {b}", ", afterwards {b}"]  # fmt: skip
SEVERAL = ["a few things for {who}: {list}", "{list}",
    "need help with these: {list}", "can you do these for me: {list}",
    "on my list for {soon}: {list}", "we have to {list}", "please {list}", "i need to {list}",
    "{soon} we have to {list}",
    "my plan: {list}", "how do i {list}", "{list}, all {soon} please", "could you {list}",
    "{who} wants me to {list}", "several steps: {list}", "what's the way to {list}"]  # fmt: skip
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
        "{company} still waits for {np}", "we are missing {np} for {company}",
        "{np} is missing for {company}",
        "{company} expects {np} from us", "can {company} get {np}", "we need {np} for {company}", "{np} for {company}",
        "{np} would help {company}", "{person} needs {np}", "{np} has to exist by tomorrow"],
    "read": ["what does {np} say", "what's in {np}", "is {np} alright", "what do we have as {bare}",
        "can't remember {np}", "what was {np} again", "quick look at {np}", "{company} asks for {np}",
        "does {np} look right", "i'd check {np} first", "status of {np}", "what about {np}"],
    "list": ["which {bare} do we have", "how many {bare} are there", "what {bare} are there", "who knows all {bare}",
        "i only see some {bare}, where are the rest", "{bare}, complete", "names of all {bare}", "which {bare} exist",
        "what {bare} can i pick from", "full set of {bare}", "any {bare} for {company}"],
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
    "check": ["is {np} ok", "is {np} valid", "can {np} be trusted", "not sure {np} is right"],
}  # fmt: skip
FOUND = {"summarize": "read", "find": "list", "submit": "create", "generate": "create"}
