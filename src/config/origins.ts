/** Where the values of a configuration come from: files in layers, the first of which has the last word, and the environment. */
import type { ListedModel, ModelEntry } from '../models/entry.ts'
import { isRaw } from '../models/layers.ts'

/** Where a value comes from. */
export interface Origin {
  /**
   * `configuration` and `models` are files of the operator, `managed` is what was set up at run time, `prices` is the operator's
   * price list, `built-in` is a configuration or a price list of the package, and `default` is what holds where nothing is written.
   */
  readonly from:
    | 'environment'
    | 'command line'
    | 'configuration'
    | 'models'
    | 'managed'
    | 'starter'
    | 'prices'
    | 'built-in'
    | 'default'
  /** The file, as messages name it. */
  readonly file?: string
  /** The variables whose values it has, or the variable or option that sets it. */
  readonly name?: string
  /** The revision of the managed layer. */
  readonly revision?: number
}

/** One source of values. */
export interface Layer {
  readonly origin: Origin
  /** A value in the form of a configuration, before it was validated. */
  readonly value: unknown
}

/** What a configuration was put together from. */
interface Sources {
  /** The first one that has a value gives it. */
  readonly layers: readonly Layer[]
  /** Origins of values that no layer gives, by their dotted paths. */
  readonly set: ReadonlyMap<string, Origin>
  /** The validated entries, by id. */
  readonly models: Readonly<Record<string, Pick<ModelEntry, 'wildcard' | 'listed'>>>
  /** Origins of entries of price lists. */
  readonly listed: WeakMap<ListedModel, Origin>
}

const DEFAULT: Origin = { from: 'default' }

/** Tells the origin of each value of one configuration. */
export class Origins {
  readonly #sources: Sources

  constructor(sources: Sources) {
    this.#sources = sources
  }

  /** Ids of models, and `vendor/*`, that files of the operator name. */
  ownModels(): string[] {
    const own = this.#sources.layers.filter(
      ({ origin: { from } }) => from === 'configuration' || from === 'models',
    )
    const ids = own.flatMap(({ value }) =>
      isRaw(value) && isRaw(value.models) ? Object.keys(value.models) : [],
    )
    return [...new Set(ids)]
  }

  /** The origin of the value with this path. */
  of(path: readonly string[]): Origin {
    const { layers, set, models, listed } = this.#sources
    for (let length = path.length; length > 0; length--) {
      const origin = set.get(path.slice(0, length).join('.'))
      if (origin) return origin
    }
    const [section, id = '', member = ''] = path
    const entry = section === 'models' && Object.hasOwn(models, id) ? models[id] : undefined
    const place = entry?.wildcard === undefined ? path : path.with(1, entry.wildcard)
    const whole = place.slice(0, wholeOf(path))
    const layer = layers.find(({ value }) => has(value, whole))
    if (layer) return reaches(layer.value, place) ? layer.origin : DEFAULT
    const listedEntry = entry?.listed
    const name = member === 'price_source' ? 'source' : member
    return (listedEntry && has(listedEntry, [name]) && listed.get(listedEntry)) || DEFAULT
  }
}

/**
 * Layers are merged down to a depth that differs by section, and a value at that depth comes from one layer as a whole.
 * @returns the length of the path to such a value
 */
function wholeOf([section, member]: readonly string[]): number {
  if (section === 'models' || (section === 'search' && member === 'engines')) return 3
  return section === 'providers' ? 2 : 1
}

function has(value: unknown, path: readonly string[]): boolean {
  let inner = value
  for (const key of path) {
    if (!isContainer(inner) || !Object.hasOwn(inner, key)) return false
    inner = inner[key]
  }
  return inner !== undefined
}

/** Whether a layer gives the value of a path, or a text from which validation made a list or an object. */
function reaches(value: unknown, path: readonly string[]): boolean {
  let inner = value
  for (const key of path) {
    if (!isContainer(inner)) return inner !== undefined
    if (!Object.hasOwn(inner, key)) return false
    inner = inner[key]
  }
  return inner !== undefined
}

function isContainer(value: unknown): value is Readonly<Record<string, unknown>> {
  return isRaw(value) || Array.isArray(value)
}
