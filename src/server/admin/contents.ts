import { InvalidRequest, NotFound } from '../../errors/errors.ts'
import type { CallContent } from '../../observe/content/content.ts'
import { note } from './audit.ts'
import { checkParameters, readMoment } from '../../errors/query.ts'
import type { RequestContent } from './resources/request.ts'
import type { Answer, AdminRequest } from './route.ts'

const REMOVED_BY = ['key', 'user', 'before'] as const
const PARAMETERS = new Set<string>(REMOVED_BY)

/** Shows the contents of a call; every reading is recorded. @throws NotFound where nothing is kept, Unavailable */
export async function showContent(request: AdminRequest): Promise<Answer> {
  const { runtime, id, query } = request
  checkParameters(query, new Set())
  const content = await contentOf(request)
  if (!content) {
    const how = runtime.config.log.content.enabled
      ? 'Contents are kept by the gateway that served the call, of keys with log_content, for log.content.keep days.'
      : 'Contents are not kept: log.content.enabled is false.'
    throw new NotFound(
      'not_found',
      `There is no content of ${JSON.stringify(id.slice(0, 100))}. ${how}`,
    )
  }
  const { account, key, user, endpoint, model, decided, input, output, cut } = content
  await note(request, { action: 'request.content', object: `request:${id}`, after: { read: true } })
  const data: RequestContent = {
    id,
    account_id: account,
    key_id: key,
    user: user ?? null,
    endpoint,
    model: model ?? null,
    decided,
    input: JSON.parse(input),
    output: JSON.parse(output),
    cut,
  }
  return { body: { data } }
}

/** The contents of a call by its id; undefined where none are kept. @throws Unavailable */
export function contentOf({
  runtime,
  id,
}: Pick<AdminRequest, 'runtime' | 'id'>): Promise<CallContent | undefined> {
  const isId = /^req_[0-9A-HJKMNP-TV-Z]{26}$/.test(id)
  return isId ? runtime.contents.find(id) : Promise.resolve(undefined)
}

/** Removes the contents of a key, of an end user, or before a moment. @throws InvalidRequest, Unavailable */
export async function removeContents(request: AdminRequest): Promise<Answer> {
  const { runtime, query } = request
  checkParameters(query, PARAMETERS)
  const by = REMOVED_BY.filter((name) => query.get(name))
  if (by.length === 0) {
    const message = `Missing 'key', 'user' or 'before': contents are removed by at least one of them.`
    throw new InvalidRequest('missing_required_parameter', message, { param: 'key' })
  }
  const [key, user, before] = REMOVED_BY.map((name) => query.get(name) || undefined)
  const moment = before === undefined ? undefined : readMoment(before, 'before')
  const removed = await runtime.contents.remove({ key, user, before: moment })
  // The name of an end user is part of what was to be removed, so it is not recorded.
  const after = { removed, by: by.join(','), ...(key !== undefined && { key }) }
  await note(request, { action: 'request.content.remove', object: 'requests', after })
  return { body: { data: { removed } } }
}
