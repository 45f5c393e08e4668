import type { Lexicon } from '../cues.ts'
import { code } from './en/code.ts'
import { financialAdvice } from './en/financial-advice.ts'
import { legal } from './en/legal.ts'
import { math } from './en/math.ts'
import { medical } from './en/medical.ts'
import { personalData } from './en/personal-data.ts'
import { roleplay } from './en/roleplay.ts'

export const en: Lexicon = {
  language: 'en',
  asks: `
    how do i, how can i, how could i, how would i, how should i, how to, can you, could you,
    would you, help me, please, i need, i want, i'd like, i would like, give me, show me, teach me,
    walk me through, explain how to, is there a way, what's the best way, tell me how,
    i'm trying to, i am trying to, make me, what's wrong with, what is wrong with`,
  against: `
    who invented, who discovered, who founded, who wrote, who was, who were, who played,
    who directed, was invented, history of, museum*, biograph*, etymolog*, where does the word,
    word come from, stand for, stands for, what year, movie*, film*, tv series, tv show, drama,
    novel*, opening hours, become a, salary, earn in, earn as`,
  operators: `
    times, plus, minus, divided by, multiplied by, over, modulo, to the power of, x`,
  code,
  math,
  roleplay,
  medical,
  legal,
  'financial-advice': financialAdvice,
  'personal-data': personalData,
}
