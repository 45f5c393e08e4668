/** The command `vendors`. */
import { expect, it } from 'vitest'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'

it('lists the vendors, and which keys are set, also in a file .env; never their values', async () => {
  const cwd = await folder({ '.env': 'GROQ_API_KEY=secret-of-groq\n' })
  const env = { OPENAI_API_KEY: 'secret-of-openai', MISTRAL_API_KEY: '' }
  const { code, out, err } = await call(['vendors'], { cwd, env })
  expect([code, err]).toEqual([0, ''])
  expect(out).not.toContain('secret-of')
  expect(out).toMatch(/^VENDOR +VARIABLE +SET +MODELS +MAKES ITS MODELS\n/)
  expect(out).toMatch(/^openai +OPENAI_API_KEY +yes +\d{3} +yes$/m)
  expect(out).toMatch(/^groq +GROQ_API_KEY +yes +\d+ +no$/m)
  expect(out).toMatch(/^mistral +MISTRAL_API_KEY +no /m)
  expect(out).toMatch(/^ollama +OLLAMA_HOST, OLLAMA_API_BASE +no +as its server says/m)
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
