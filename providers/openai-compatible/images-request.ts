/** Bodies of image requests. */
import type { Form, Host, ImageEditInput, ImageInput, MediaFile } from '../../src/plugin.ts'
import { toDataUrl } from '../shared/http.ts'

/** Differences between vendors in image generation. */
export interface ImageQuirks {
  /** The `response_format` that asks for bytes; undefined where it must be absent. By default `b64_json`. */
  readonly bytes?: (model: string) => string | undefined
  /** Models that make one image per request. */
  readonly single?: (model: string) => boolean
  /** Members that the vendor knows; others are refused. */
  readonly knows?: ReadonlySet<string>
  /** Members that mean nothing to a model. */
  readonly drops?: (model: string) => readonly string[]
  /** Paths in place of `images/…`. */
  readonly paths?: { readonly generations?: string; readonly edits?: string }
  /** Edits are JSON with one image, as `image.url`. */
  readonly referenceAsUrl?: true
}

/** A request body and its content type. */
export interface ImageBody {
  readonly contentType: string
  readonly body: string | Form['body']
}

/** The body of a generation request. */
export function toGeneration(
  input: ImageInput,
  model: string,
  quirks: ImageQuirks,
  omit: readonly string[],
): ImageBody {
  return json(members(input, model, quirks, omit))
}

/** The body of an edit request. @throws the failure class `bad_request` for what this vendor does not support */
export function toEdit(
  input: ImageEditInput,
  model: string,
  quirks: ImageQuirks,
  omit: readonly string[],
  host: Host,
): ImageBody {
  const { images, mask, ...rest } = input
  const body = members(rest as ImageInput, model, quirks, omit)
  if (quirks.referenceAsUrl) return json({ ...body, image: reference(input, host.fail) })
  const fields: Parameters<Host['form']>[0][number][] = []
  for (const [name, value] of Object.entries(body)) {
    if (value === undefined || value === null) continue
    fields.push({ name, value: typeof value === 'object' ? JSON.stringify(value) : String(value) })
  }
  const name = images.length > 1 ? 'image[]' : 'image'
  for (const image of images) fields.push({ name, value: fileOf(image, 'image') })
  if (mask) fields.push({ name: 'mask', value: fileOf(mask, 'mask') })
  return host.form(fields)
}

function members(
  input: ImageInput,
  model: string,
  { bytes = () => 'b64_json', knows, drops }: ImageQuirks,
  omit: readonly string[],
): Record<string, unknown> {
  const body: Record<string, unknown> = { ...input }
  for (const name in body) if (knows?.has(name) === false) delete body[name]
  const response_format = bytes(model)
  if (response_format !== undefined) body.response_format = response_format
  for (const name of [...(drops?.(model) ?? []), ...omit]) delete body[name]
  return { model, ...body }
}

function reference({ images, mask }: ImageEditInput, fail: Host['fail']): object {
  if (mask) {
    throw fail('bad_request', 'This model takes no mask.', {
      code: 'unsupported_parameter',
      param: 'mask',
    })
  }
  if (images.length > 1) {
    throw fail('bad_request', 'This model takes one image to change, not several.', {
      code: 'unsupported_value',
      param: 'image',
    })
  }
  return { url: toDataUrl(images[0]!) }
}

/** Vendors read the extension of the file name. The client's own name is private. */
function fileOf(file: MediaFile, name: string) {
  const { mediaType } = file
  const filename = `${name}.${mediaType.replace('image/', '')}`
  return { bytes: file.segments ?? file.bytes, mediaType, filename }
}

function json(body: object): ImageBody {
  return { contentType: 'application/json', body: JSON.stringify(body) }
}
