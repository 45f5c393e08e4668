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
 * @param props.model the model that they name; by default the first one
 */
export function Snippets({
  secret,
  asKey = secret,
  first = false,
  model: named,
}: {
  readonly secret?: string
  readonly asKey?: string | undefined
  readonly first?: boolean
  readonly model?: string | undefined
}) {
  const answer = useAnswer<{
    data: readonly { readonly id: string; readonly modality?: string }[]
  }>(named ? null : '/v1/models', { key: asKey })
  if (answer.loading && !answer.data) return null
  const model = named || answer.data?.data.find(({ modality }) => modality === 'chat')?.id
  const all = snippets(secret ?? VARIABLE, model ?? '…')
  return html`${(first ? all.slice(0, 1) : all).map(({ label, text }) => html`<${Code} key=${label} label=${label} text=${text} />`)}`
}

function snippets(secret: string, model: string) {
  const base = `${ownAddress()}/v1`
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] })
  // A program takes the variable that stands for a key from its environment.
  const isVariable = secret === VARIABLE
  const quoted = isVariable ? `os.environ["${secret.slice(1)}"]` : `"${secret}"`
  const call = `model="${model}",\n    messages=[{"role": "user", "content": "Hello"}],`
  return [
    {
      label: 'curl',
      text: `curl ${base}/chat/completions \\\n  -H "Authorization: Bearer ${secret}" \\\n  -H "Content-Type: application/json" \\\n  -d '${body}'`,
    },
    {
      label: 'OpenAI SDK (Python)',
      text: `${isVariable ? 'import os\n' : ''}from openai import OpenAI\n\nclient = OpenAI(\n    base_url="${base}",\n    api_key=${quoted},\n)\nanswer = client.chat.completions.create(\n    ${call}\n)\nprint(answer.choices[0].message.content)`,
    },
    {
      label: 'Claude Code',
      text: `export ANTHROPIC_BASE_URL=${ownAddress()}\nexport ANTHROPIC_AUTH_TOKEN=${secret}\nexport ANTHROPIC_MODEL=${model}\nexport ANTHROPIC_DEFAULT_HAIKU_MODEL=${model}\nclaude`,
    },
    {
      label: 'Codex (~/.codex/config.toml)',
      text: `${isVariable ? '' : `# export API_KEY=${secret}\n`}model = "${model}"\nmodel_provider = "sluicegate"\n\n[model_providers.sluicegate]\nname = "Sluicegate"\nbase_url = "${base}"\nenv_key = "API_KEY"\nwire_api = "responses"`,
    },
  ]
}
