/** Writes `config/openapi.json`: `npm run openapi`. */
import { writeFileSync } from 'node:fs'
import { describeApi } from './_description.ts'

const file = new URL('../../config/openapi.json', import.meta.url)
writeFileSync(file, `${JSON.stringify(describeApi())}\n`)
