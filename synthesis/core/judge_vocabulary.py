"""The words of reasoning itself: what a trace may say beyond the request, the rule and the tools' texts."""

from synthesis.core.judge_stems import plain_stems

REASONING = plain_stems(
    """
    request query question person user somebody someone message text words wording phrase sentence say says said
    tell told ask asks asked asking mention mentioned speak state stated name named want wants wanted wish need
    needs needed require seek look looking like help get find read reading see seen show shown mean means meaning
    meant intent intention purpose aim goal task matter thing things something anything nothing kind sort type
    sense way part parts point points tool tools service services endpoint endpoints api apis operation operations
    function call calls option options candidate choice choose chosen choosing pick select decide decides decided
    decision decisive deciding settle settles settled commit answer result outcome conclusion conclude final
    finally hence therefore thus consequently accordingly follow follows following because since reason reasoning
    why whether although though however but yet still while whereas instead rather rule rules clause clauses case
    cases condition situation circumstance exception applies apply applied applying govern covers cover covered
    hold holds held match matches matched matching fit fits fitting suit suits suitable belong belongs concern
    concerns concerning regard regarding relate related relevant about deal deals dealing serve serves serving
    similar alike same different difference differ differs distinguish distinction nearly almost hardly close
    closer closest near nearest look-alike lookalike confuse confusable resemble resembles compare compared
    comparing comparison versus between among against contrast overlap overlapping share shared common equally
    both either neither each every all one two three four five several many few more most less least other others
    another alternative rival remaining remain remains left leave leaves leaving rest only alone just exactly
    precisely clearly plainly obviously simply really actually indeed first second third next then last begin
    start starting narrow narrowing end come comes coming go goes going turn turns take takes taken taking give
    gives given bring brings use uses used using handle handles handled work works working do does done make makes
    made offer offers offered provide provides carry carries contain contains return returns possible possibly
    likely unlikely perhaps maybe might could would should must can cannot not never no yes okay well glance
    hesitate tempting consider considering considered think thought understand understood recognise recognize
    signal signals sign indicate indicates suggest suggests evidence clue hint hints cue shows drop drops out
    exclude excluded eliminate eliminated reserve reserved draw draws line description descriptions described data
    record records information access permission allowed enough right wrong correct proper best better good clear
    plain short long brief word order place area today here there where when which what who whom whose how now
    again also too even already usually always single separate particular specific general broad direct directly
    apart together along within without
    """
)
