/** What a form would send, as text: a request for the shell, and the lines of a configuration. Pure. */

/** A text that YAML reads as itself without quotes. */
const PLAIN = /^[A-Za-z_][\w./-]*(?: [\w./-]+)*$/
/** Texts that some readers take for a value of another kind. */
const OTHER = /^(?:true|false|null|yes|no|on|off|y|n|~)$/i

/** What stands in place of a secret. */
const VARIABLE = /^\$\{[A-Z][A-Z0-9_]*\}$/

/** YAML of JSON for a configuration: plain texts as they are, all others in the quotes of JSON, which YAML reads. */
export function yaml(value: unknown, indent = ''): string {
  if (Array.isArray(value) && value.length > 0)
    return value.map((one) => `${indent}- ${yaml(one, `${indent}  `).trimStart()}`).join('\n')
  if (isFilled(value))
    return Object.entries(value)
      .filter(([, one]) => one !== undefined)
      .map(([name, one]) => {
        const isBlock = isFilled(one) || (Array.isArray(one) && one.length > 0)
        return `${indent}${scalar(name)}:${isBlock ? '\n' : ' '}${yaml(one, isBlock ? `${indent}  ` : '')}`
      })
      .join('\n')
  return indent + scalar(value)
}

function isFilled(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.values(value).some((one) => one !== undefined)
}

function scalar(value: unknown): string {
  if (typeof value === 'string' && PLAIN.test(value) && !OTHER.test(value)) return value
  const isText = typeof value === 'string' && !VARIABLE.test(value)
  return JSON.stringify(isText ? value.replaceAll('${', () => '$${') : value) ?? 'null'
}

export interface ApiRequest {
  readonly method: string
  readonly path: string
  readonly body: object
  /** The revision that a change is based on. */
  readonly revision?: string | number | null | undefined
}

/** A request as a command. A variable in the body, such as `${OPENAI_API_KEY}`, is the shell's. */
export function curl({ method, path, body, revision }: ApiRequest, origin: string): string {
  const data = JSON.stringify(body).replaceAll("'", String.raw`'\''`)
  return [
    `curl -X ${method} '${origin}${path}'`,
    `-H "Authorization: Bearer $SLUICEGATE_ADMIN_TOKEN"`,
    ...(revision === undefined || revision === null ? [] : [`-H 'If-Match: "${revision}"'`]),
    `-H 'Content-Type: application/json'`,
    `-d '${data.replaceAll(/"\$\{([A-Z][A-Z0-9_]*)\}"/g, `"'"$$$1"'"`)}'`,
  ].join(' \\\n  ')
}
