import { wrongQuery } from '../../errors/query.ts'

/** A status, or a family of them, as a range. @throws InvalidRequest */
export function readStatus(text: string): readonly [number, number] {
  const [, family] = /^([1-5])xx$/.exec(text) ?? []
  if (family) return [Number(family) * 100, Number(family) * 100 + 99]
  if (/^\d{3}$/.test(text) || text === '0') return [Number(text), Number(text)]
  throw wrongQuery('status', 'a status such as 404, or a family such as 4xx')
}

/** The id of a request as the log stores it. @throws InvalidRequest */
export function readLogId(text: string, name: string): string {
  const [, ulid] = /^req_([0-9A-HJKMNP-TV-Z]{26})$/.exec(text) ?? []
  if (ulid) return ulid
  throw wrongQuery(name, 'the id of a request')
}

export function requestId(row: string): string {
  return `req_${row}`
}
