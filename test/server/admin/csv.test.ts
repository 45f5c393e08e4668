import { describe, expect, it } from 'vitest'
import { usdJson } from '../../../src/money/money.ts'
import { csvResponse } from '../../../src/server/admin/csv.ts'

describe('a list as CSV', () => {
  it('has a header line, columns by path, and amounts with all decimals', async () => {
    const rows = [
      { id: 'a', spend: { day: usdJson(-1n), month: usdJson(12_345_678_901_234_567_890n) } },
      { id: 'b, "c"', spend: null, models: ['x/y', 'x/z'] },
    ]
    const columns = ['id', 'spend.day', 'spend.month', 'models']
    const answer = csvResponse('keys of "acme"', columns, rows)
    expect(answer.headers.get('content-disposition')).toBe(
      'attachment; filename="keys_of__acme_.csv"',
    )
    expect(await answer.text()).toBe(
      [
        'id,spend.day,spend.month,models',
        'a,-0.000000000001,12345678.90123456789,',
        '"b, ""c""",,,"[""x/y"",""x/z""]"',
        '',
      ].join('\r\n'),
    )
  })

  it('is streamed', async () => {
    async function* many() {
      for (let i = 0; i < 1000; i++) yield { i }
    }
    const text = await csvResponse('numbers', ['i'], many()).text()
    expect(text.split('\r\n')).toEqual(['i', ...Array.from({ length: 1000 }, (_, i) => `${i}`), ''])
  })

  it('starts no formula in a spreadsheet', async () => {
    const row = {
      a: '=1+1',
      b: '+1',
      c: '-1',
      d: '@SUM(A1)',
      e: '\tx',
      f: "'ok",
      g: -1,
      h: true,
      i: null,
    }
    const text = await csvResponse('cells', Object.keys(row), [row]).text()
    expect(text).toBe(`a,b,c,d,e,f,g,h,i\r\n'=1+1,'+1,'-1,'@SUM(A1),'\tx,'ok,-1,true,\r\n`)
  })
})
