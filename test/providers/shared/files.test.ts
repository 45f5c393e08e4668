import { describe, expect, it } from 'vitest'
import { fileNameOf, withFetchedFiles } from '../../../providers/shared/files.ts'
import type { ChatMessage, DownloadOptions } from '../../../src/plugin.ts'

const PNG = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
const { signal } = new AbortController()

it.each([
  ['text/csv', 'file.csv'],
  ['image/png', 'file.png'],
  ['application/zip', 'file.pdf'],
])('a file of type %s without a name is %s', (type, name) => {
  expect(fileNameOf(`data:${type};base64,YQ==`)).toBe(name)
})

describe('addresses in messages', () => {
  const image = (url: string) => ({ type: 'image_url', image_url: { url, detail: 'low' } })
  const file = (file_data: string) => ({ type: 'file', file: { file_data, filename: 'a' } })
  const user = (...content: object[]): ChatMessage => ({ role: 'user', content })

  function downloads(files: Readonly<Record<string, readonly [Uint8Array, string]>>) {
    const asked: [string, DownloadOptions | undefined][] = []
    const host = {
      download: (url: string, _signal: AbortSignal, options?: DownloadOptions) => {
        asked.push([url, options])
        const [bytes, contentType] = files[url]!
        return Promise.resolve({ bytes, contentType })
      },
    }
    return { asked, host }
  }

  it('are fetched once each, of the wanted kinds only, and their bytes tell the type', async () => {
    const { asked, host } = downloads({
      'https://a.example/1': [PNG, 'image/jpeg'],
      'https://a.example/2.csv': [Buffer.from('a,b'), 'application/octet-stream'],
      'https://a.example/3': [Buffer.from('?'), ''],
    })
    const messages = [
      user({ type: 'text', text: 'See' }, image('https://a.example/1')),
      { role: 'assistant', content: 'I see.' } as const,
      user(
        image('https://a.example/1'),
        image('data:image/png;base64,AA=='),
        file('https://a.example/2.csv'),
        file('JVBERg=='),
        file('https://a.example/3'),
      ),
    ]
    const before = structuredClone(messages)
    const got = await withFetchedFiles(messages, { host, signal, parts: ['image_url', 'file'] })
    const png = image(`data:image/png;base64,${PNG.toString('base64')}`)
    expect(got).toEqual([
      user({ type: 'text', text: 'See' }, png),
      messages[1],
      user(
        png,
        image('data:image/png;base64,AA=='),
        file('data:text/csv;base64,YSxi'),
        file('JVBERg=='),
        file('data:application/octet-stream;base64,Pw=='),
      ),
    ])
    expect(got[1]).toBe(messages[1])
    expect(messages).toEqual(before)
    expect(asked.map(([url, options]) => [url, options?.param])).toEqual([
      ['https://a.example/1', 'messages[0].content[1].image_url.url'],
      ['https://a.example/2.csv', 'messages[2].content[2].file.file_data'],
      ['https://a.example/3', 'messages[2].content[4].file.file_data'],
    ])
  })

  it('may not be larger than 50 MiB together', async () => {
    const mib = 1024 * 1024
    const { asked, host } = downloads({
      'https://a.example/1': [new Uint8Array(20 * mib), ''],
      'https://a.example/2': [new Uint8Array(1), ''],
    })
    const messages = [user(file('https://a.example/1'), file('https://a.example/2'))]
    await withFetchedFiles(messages, { host, signal, parts: ['file'] })
    expect(asked.map(([, options]) => options?.limitBytes)).toEqual([50 * mib, 30 * mib])
  })

  it('leave the list as it is where nothing is to be fetched', async () => {
    const { host } = downloads({})
    const messages = [user(image('https://a.example/1'), file('JVBERg=='))]
    expect(await withFetchedFiles(messages, { host, signal, parts: ['file'] })).toBe(messages)
  })
})
