import type { Channel, Media, MediaFile, TextItem } from '../../plugin.ts'
import { toBase64 } from './media.ts'
import { stringsIn } from './texts.ts'

export function itemOf(
  id: string,
  channel: Channel,
  text: string,
  media: readonly Media[] = [],
): TextItem {
  const item = { id, side: 'input', channel, role: 'user', current: true, text } as const
  return media.length > 0 ? { ...item, media } : item
}

/** A text for exact rules only: it is neither a question nor an answer. */
export function exactItem(id: string, text: string): TextItem {
  return itemOf(id, 'annotation', text)
}

/** All texts of a member that goes to the vendor as a name, for exact rules only. */
export function labelItems(name: string, value: unknown): readonly TextItem[] {
  return stringsIn(value).map((text, index) => exactItem(`${name}#${index}`, text))
}

/** All texts in the members of a request other than these and the gateway's own. */
export function otherItems(
  input: object,
  except: ReadonlySet<string>,
  channel: Channel,
): readonly TextItem[] {
  return Object.entries(input).flatMap(([name, value]) =>
    except.has(name) || OWN.has(name)
      ? []
      : stringsIn(value).map((text, index) => itemOf(`${name}#${index}`, channel, text)),
  )
}

const OWN: ReadonlySet<string> = new Set(['model', 'policy', 'provider'])

/** A file as guards see it. Few guards check it, and its base64 is large: that is made on demand. */
export function mediaOf(kind: Media['kind'], file: MediaFile): Media {
  const { mediaType } = file
  return {
    kind,
    mediaType,
    get url() {
      return `data:${mediaType};base64,${toBase64(file.bytes)}`
    },
  }
}
