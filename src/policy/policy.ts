/** Policies: validation, merge, and instructions for the model. Pure functions; see `README.md`. */
export * from './merge.ts'
export * from './merge.ts'
export * from './schema.ts'
