/** The command `vendors`. */
import { stripVTControlCharacters } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'

it('lists the vendors, and which keys are set, also in a file .env; never their values', async () => {
  const cwd = await folder({ '.env': 'GROQ_API_KEY=secret-of-groq\n' })
  const env = { OPENAI_API_KEY: 'secret-of-openai', MISTRAL_API_KEY: '' }
  const { code, out, err } = await call(['vendors'], { cwd, env })
  expect([code, err]).toEqual([0, ''])
  expect(out).not.toContain('secret-of')
  expect(out).toMatch(/^VENDOR +VARIABLE +SET +MODELS +MAKES ITS MODELS +OR ELSE\n/)
  expect(out).toMatch(/^openai +OPENAI_API_KEY +yes +\d{3} +yes +-$/m)
  expect(out).toMatch(/^groq +GROQ_API_KEY +yes +\d+ +no +-$/m)
  expect(out).toMatch(/^mistral +MISTRAL_API_KEY +no /m)
  expect(out).toMatch(/^ollama +OLLAMA_HOST +no +as its server says +no +OLLAMA_API_BASE$/m)
  // Lines that only map price lists are no vendors that could be used.
  expect(out).not.toMatch(/^(azure|vertex|bedrock) /m)
})

it('lists them as JSON', async () => {
  const { out } = await call(['vendors', '--json'], { cwd: await folder({}), env: {} })
  expect(JSON.parse(out)).toContainEqual({
    name: 'groq',
    variables: ['GROQ_API_KEY'],
    set: null,
    models: expect.any(Number),
    local: false,
    maker: false,
  })
})

it('shows each variable whole on a terminal of 80 columns, because it is copied from there', async () => {
  const { isTTY, columns } = process.stdout
  onTestFinished(() => void Object.assign(process.stdout, { isTTY, columns }))
  Object.assign(process.stdout, { isTTY: true, columns: 80 })
  const { out } = await call(['vendors'], { cwd: await folder({}), env: {} })
  expect(out).not.toContain('…')
  expect(out).toMatch(/^google +GEMINI_API_KEY +no /m)
  expect(
    stripVTControlCharacters(out)
      .split('\n')
      .filter((line) => line.length > 80),
  ).toEqual([])
})

it('says in check how many models of a vendor are past their end, which a start does not count', async () => {
  const cwd = await folder({ '.env': 'OPENAI_API_KEY=secret-of-openai\n' })
  const { out } = await call(['check'], { cwd, env: {} })
  expect(out).toMatch(
    /^openai\/\*: \d+ models, prices of \S+; not listed, because past their end: \d+$/m,
  )
})
