import { ask } from './_ask.ts'

await ask('/v1/models')
