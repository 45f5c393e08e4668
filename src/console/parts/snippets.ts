/** Ways to call the gateway, with a model that it has. */
import { ownAddress } from '../base.ts'
import { useAnswer } from '../api.ts'
import { html } from '../html.ts'
import { Code } from './copy.ts'

/** Stands for the key in what is shown. */
const VARIABLE = '$API_KEY'

/**
 * Commands and settings of programs, with a chat model that the key may use.
 * @param props.secret the key, which is shown; without it the name of a variable stands in its place
 * @param props.asKey the key whose models are asked for where none is shown
 * @param props.first whether only the command is shown
 */
export function Snippets({
  secret,
  asKey = secret,
  first = false,
}: {
  readonly secret?: string
  readonly asKey?: string | undefined
  readonly first?: boolean
}) {
  const answer = useAnswer<{
    data: readonly { readonly id: string; readonly modality?: string }[]
  }>('/v1/models', { key: asKey })
  if (answer.loading && !answer.data) return null
  const model = answer.data?.data.find(({ modality }) => modality === 'chat')?.id
  const all = snippets(secret ?? VARIABLE, model ?? '…')
  return html`${(first ? all.slice(0, 1) : all).map(({ label, text }) => html`<${Code} key=${label} label=${label} text=${text} />`)}`
}

function snippets(secret: string, model: string) {
  const base = `${ownAddress()}/v1`
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] })
  const quoted = secret === VARIABLE ? `os.environ["${secret.slice(1)}"]` : `"${secret}"`
  return [
    {
      label: 'curl',
      text: `curl ${base}/chat/completions \\\n  -H "Authorization: Bearer ${secret}" \\\n  -H "Content-Type: application/json" \\\n  -d '${body}'`,
    },
    {
      label: 'OpenAI SDK (Python)',
      text: `from openai import OpenAI\n\nclient = OpenAI(base_url="${base}", api_key=${quoted})`,
    },
    {
      label: 'Coding client',
      text: `export OPENAI_BASE_URL=${base}\nexport OPENAI_API_KEY=${secret}\nexport ANTHROPIC_BASE_URL=${ownAddress()}\nexport ANTHROPIC_AUTH_TOKEN=${secret}`,
    },
  ]
}
