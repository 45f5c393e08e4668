/** `multipart/form-data` made of the requests of the grammar, and random damage to it. */
import { toText } from './_json.ts'
import { pick, type Random } from './_random.ts'

/** One part, with its head as it is sent. */
export interface FormPart {
  readonly head: string
  readonly body: Buffer
}

/** A form, as far as it can be put together wrongly. */
export interface Form {
  readonly parts: readonly FormPart[]
  readonly boundary: string
  /** The text that stands before the first part; `epilogue` stands after the last one. */
  readonly preamble: string
  readonly epilogue: string
  readonly contentType: string
}

const DATA_URL = /^data:([\w/.+-]+);base64,([\w+/=]*)$/

/** The form that stands for a JSON request: data URLs are files, other values texts. */
export function formOf(request: unknown, random: Random): Form {
  const members = typeof request === 'object' && request !== null ? Object.entries(request) : []
  const boundary = pick(random, [
    'x',
    '----WebKitFormBoundary7MA4YWxkTrZu0gW',
    'a b',
    '-'.repeat(70),
  ])
  return {
    parts: members.flatMap(([name, value]) => partsOf(name, value, random)),
    boundary,
    preamble: random(10) === 0 ? 'This is a form.\r\n' : '',
    epilogue: random(10) === 0 ? '\r\nThis was a form.' : '\r\n',
    contentType: `multipart/form-data; boundary="${boundary}"`,
  }
}

function partsOf(name: string, value: any, random: Random): FormPart[] {
  if (value === null || value === undefined) return []
  if (name === 'images' && Array.isArray(value)) {
    return value.flatMap((one) => partsOf('image[]', one?.image_url ?? one, random))
  }
  const content = name === 'mask' ? (value.image_url ?? value) : value
  const text = typeof content === 'string' ? content : (toText(content) ?? '')
  const [, type, base64] = DATA_URL.exec(text) ?? []
  if (type !== undefined) return [file(name, type, Buffer.from(base64!, 'base64'), random)]
  return [{ head: disposition(name), body: Buffer.from(text) }]
}

function file(name: string, type: string, body: Buffer, random: Random): FormPart {
  const filename = pick(random, ['a.png', 'ä.wav', 'b', '../../etc/passwd'])
  const typed = random(3) === 0 ? '' : `\r\nContent-Type: ${type}`
  return { head: `${disposition(name)}; filename="${filename}"${typed}`, body }
}

function disposition(name: string): string {
  return `Content-Disposition: form-data; name="${name}"`
}

/** The body of the request. */
export function formBytes({ parts, boundary, preamble, epilogue }: Form): Buffer {
  const pieces = parts.flatMap(({ head, body }) => [
    Buffer.from(`--${boundary}\r\n${head}\r\n\r\n`),
    body,
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([
    Buffer.from(preamble),
    ...pieces,
    Buffer.from(`--${boundary}--${epilogue}`),
  ])
}

const ODD_HEADS = [
  '',
  'Content-Disposition: form-data',
  'Content-Disposition: form-data; name=""',
  'Content-Disposition: form-data; name="__proto__"',
  'Content-Disposition: form-data; name="policy[a][__proto__]"',
  'Content-Disposition: form-data; name="image[99999999]"',
  'Content-Disposition: form-data; name="model"; filename=""',
  "Content-Disposition: form-data; name*=UTF-8''%6dodel",
  'Content-Disposition: attachment; name="model"',
  'Content-Disposition: form-data; name="model"\r\nContent-Transfer-Encoding: base64',
  'Content-Disposition: form-data; name="model"\r\nContent-Type: text/plain; charset=utf-16',
  'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: multipart/mixed',
  `X: ${'x'.repeat(9000)}\r\nContent-Disposition: form-data; name="model"`,
  'content-disposition:form-data;name=stream',
  'Content-Disposition: form-data; name="a\r\nb"',
]

/** A form with one thing wrong. */
export function damageForm(form: Form, random: Random): Form {
  const { parts, boundary } = form
  const at = random(parts.length + 1)
  const part = parts[at]
  switch (random(9)) {
    case 0:
      return { ...form, parts: parts.toSpliced(at, 1) }
    case 1:
      return part ? { ...form, parts: parts.toSpliced(at, 0, part) } : form
    case 2:
      return { ...form, parts: parts.toReversed() }
    case 3: {
      const head = pick(random, ODD_HEADS)
      return {
        ...form,
        parts: parts.toSpliced(at, 1, { head, body: part?.body ?? Buffer.from('1') }),
      }
    }
    case 4: {
      const many = {
        head: disposition(pick(random, ['a', 'model', 'x[]'])),
        body: Buffer.from('1'),
      }
      return { ...form, parts: [...parts, ...Array.from({ length: 1 + random(80) }, () => many)] }
    }
    case 5: {
      const inside = Buffer.from(
        pick(random, [`--${boundary}`, `\r\n--${boundary}`, '\0', '\ud800']),
      )
      return part
        ? { ...form, parts: parts.with(at, { ...part, body: Buffer.concat([part.body, inside]) }) }
        : form
    }
    case 6: {
      const contentType = pick(random, [
        'multipart/form-data',
        'multipart/form-data; boundary=',
        'multipart/form-data; boundary="other"',
        `multipart/form-data; boundary=${'b'.repeat(200)}`,
        'multipart/mixed; boundary=x',
        'application/json',
        'text/plain',
      ])
      return { ...form, contentType }
    }
    case 7:
      return { ...form, epilogue: pick(random, ['', '\r\n--x\r\n', '\r\n'.repeat(5000), '-']) }
    default:
      return {
        ...form,
        preamble: pick(random, ['\n', '--\r\n', 'a'.repeat(5000), `--${boundary}`]),
      }
  }
}
