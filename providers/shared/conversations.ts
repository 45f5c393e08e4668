/** Texts that stand for what is missing in a conversation, where a vendor requires it. */

/** The result of a call that was never answered. */
export const NO_RESULT = '(no result)'
/** The user's turn of a conversation that does not begin with one. */
export const OPENING = '(The conversation begins.)'
/** A message of the user, or a result, without text. */
export const EMPTY = '(empty)'
/** The first line of a result that a tool could not give, where a vendor has no member for it. */
export const FAILED = '(the tool failed)'
/** What the assistant says between the results of its calls and the next message. */
export const RESULTS_ARE_IN = '(The results are in.)'
