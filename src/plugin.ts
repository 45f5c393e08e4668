/**
 * The public contract between the gateway and its plugins. Interface version 1: a breaking change is version 2, never an
 * edit here. A plugin is a plain object; `define…` only brands it and gives types, so nothing of the gateway has to be
 * imported at run time.
 */
export * from './plugin/base.ts'
export * from './plugin/chat.ts'
export * from './plugin/flow.ts'
export * from './plugin/guard.ts'
export * from './plugin/images.ts'
export * from './plugin/media.ts'
export * from './plugin/provider.ts'
export * from './plugin/search.ts'
