/** Texts that stand for what is missing in a conversation, where a vendor requires it. */

/** The result of a call that was never answered. */
export const NO_RESULT = '(no result)'
/** The text of a message of the user that has none. */
export const EMPTY = '(empty)'
/** What the assistant says between the results of its calls and the next message. */
export const RESULTS_ARE_IN = '(The results are in.)'
