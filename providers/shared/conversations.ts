/** Texts that stand for what is missing in a conversation, where a vendor requires it. */

/** The result of a call that was never answered. */
export const NO_RESULT = '(no result)'
