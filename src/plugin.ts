/**
 * The contract between the gateway and its plugins, version 1. A plugin is a plain object; `define…` only marks it and checks
 * its types, so a plugin needs nothing of the gateway at run time. Members may be added to the contract. None is changed or
 * removed: that would be version 2.
 */
export * from './plugin/base.ts'
export type * from './plugin/chat.ts'
export type * from './plugin/fields.ts'
export type * from './plugin/flow.ts'
export * from './plugin/categories.ts'
export * from './plugin/exact-json.ts'
export * from './plugin/guard.ts'
export * from './plugin/media.ts'
export type * from './plugin/media.ts'
export type * from './plugin/migration.ts'
export * from './plugin/payments.ts'
export type * from './plugin/price-source.ts'
export * from './plugin/provider.ts'
export * from './plugin/search.ts'
export * from './plugin/sink.ts'
export type * from './plugin/texts.ts'
