/** Installations of LiteLLM: what its configuration and its keys become here. Reads and writes nothing itself. */
export { mapConfiguration, type Configuration } from './litellm/configuration.ts'
export type { Entry } from './litellm/models.ts'
export { looksLikeKeys, mapKeys, type ImportedKey, type Keys } from './litellm/keys.ts'
export type { Note } from './litellm/values.ts'
