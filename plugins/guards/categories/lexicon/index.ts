/** Lexicons of all supported languages. Other languages are judged by shapes only. */
import type { Lexicon } from '../cues.ts'
import { ar } from './ar.ts'
import { de } from './de.ts'
import { en } from './en.ts'
import { es } from './es.ts'
import { fr } from './fr.ts'
import { hi } from './hi.ts'
import { it } from './it.ts'
import { ja } from './ja.ts'
import { ko } from './ko.ts'
import { nl } from './nl.ts'
import { pl } from './pl.ts'
import { pt } from './pt.ts'
import { ru } from './ru.ts'
import { zh } from './zh.ts'

export const LEXICONS: readonly Lexicon[] = [en, de, fr, es, pt, it, nl, pl, ru, zh, ja, ko, ar, hi]
