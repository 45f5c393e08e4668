/**
 * The policy of a key, and the tightening policy a request may carry: validation, merge, instructions. Pure functions.
 * Semantics of every member: guard design, sections 1 and 2.
 */
export * from './instructions.ts'
export * from './merge.ts'
export * from './schema.ts'
