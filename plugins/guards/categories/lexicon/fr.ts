import type { Lexicon } from '../cues.ts'

export const fr: Lexicon = {
  language: 'fr',
  asks: `
    comment puis-je, comment faire, comment je, comment, peux-tu, pouvez-vous, pourrais-tu,
    aide-moi, aidez-moi, s'il te plaît, s'il vous plaît, j'ai besoin, je veux, je voudrais,
    donne-moi, montre-moi, explique, dois-je, puis-je, faut-il, est-ce que je, ai-je`,
  against: `
    qui a inventé, qui a écrit, qui était, histoire de, musée, horaires, d'ouverture, quel film,
    ce film, roman, étymologie, déclaration des droits`,
  operators: `fois, plus, moins, divisé par, multiplié par`,
  code: {
    asks: `
      écris, écrire, écrivez, crée, créer, corrige*, débogue*, programme, optimise, traduis,
      convertis, implémente, génère, refactorise, explique, ajoute, teste`,
    topics: `
      javascript, typescript, sql, html, css, regex, json, api, docker*, git, algorithme*,
      code source, boucle*, requête sql, expression régulière, formule excel, script shell,
      script bash, base de données, tableau json, compilateur, page web, tests unitaires`,
    loose: `
      fonction, script, programme, python, java, code, bug, classe, variable, requête, macro, liste,
      erreur, formule`,
    strong: `
      écris une fonction, écris un script, écris un programme, ce code, mon code, le code suivant,
      en python, en javascript, requête sql, code python, formule excel, bug dans, boucle for,
      expression régulière`,
    against: `
      code postal, code vestimentaire, code de la route, code pénal, code civil, mariage`,
  },
  math: {
    asks: `
      calcule*, résous, résoudre, démontre*, prouve*, simplifie*, dérive*, intègre*, combien font,
      combien fait, combien vaut, combien de, quelle est, trouve, factorise*, développe`,
    topics: `
      équation*, dérivée*, intégrale*, racine carrée, fraction*, triangle, cercle, rectangle,
      périmètre, aire d', aire du, l'aire, surface d', rayon, diamètre, probabilité, matrice,
      polynôme*, pourcentage, devoir de maths, problème de maths, maths, moyenne de, médiane,
      volume d', théorème, hypoténuse`,
    loose: `angle, côté, moyenne, nombres, cette fonction`,
    strong: `
      résous l'équation, résoudre l'équation, combien font, racine carrée de, la dérivée de,
      l'aire d', théorème de pythagore, équation du second degré`,
    against: `mathématicien*, dure le vol, habitants`,
  },
  roleplay: {
    asks: `
      fais comme si, joue, imagine que tu, tu es, sois, parle comme, réponds comme,
      réponds en tant que, agis comme, fais semblant`,
    topics: `
      pirate*, chevalier*, vampire*, sorcier*, sorcière*, dragon*, princesse*, robot, détective,
      elfe*, petite amie, petit ami, copine, fantôme*, extraterrestre*, roi, reine, majordome,
      démon*, magicien*`,
    loose: `personnage, rôle, grand-mère, ami`,
    strong: `
      fais comme si tu, fais semblant d', jeu de rôle, jeu de rôles, joue le rôle, jouer le rôle,
      imagine que tu es, tu es maintenant, à partir de maintenant tu, sois ma,
      reste dans ton personnage, maître du jeu`,
    against: `acteur*, actrice*, relecteur, traducteur, professeur, jeu de société`,
  },
  medical: {
    asks: `
      puis-je, dois-je, que faire, que dois-je, que prendre, combien de, j'ai, ai-je, je me sens,
      mon fils a, ma fille a, mon enfant a, mon bébé a, soigner, traiter, prendre, quel médicament,
      quelle dose, est-ce dangereux`,
    leads: `mon, ma, mes, contre`,
    topics: `
      mal à la tête, mal de tête, mal au ventre, mal au dos, mal à la gorge, mal de gorge,
      migraine*, fièvre, toux, nausée*, vomi*, diarrhée, vertige*, éruption, boutons, ibuprofène,
      paracétamol, doliprane, aspirine, antibiotique*, médicament*, comprimé*, tension artérielle,
      prise de sang, analyse de sang, symptôme*, infection, allergi*, diabète, cancer, enceinte,
      dépression, grippe, varicelle, dose, posologie, effets secondaires, pilule, brûlure, pommade,
      angine`,
    loose: `mal, douleur*, ventre, poitrine, gorge, fatigué*`,
    strong: `
      effets secondaires d*, posologie d*, j'ai mal, que dois-je prendre, a de la fièvre`,
    against: `hôpital le plus proche, pharmacie ouvre, ordinateur`,
  },
  legal: {
    asks: `
      puis-je, mon employeur peut-il, peut-il, a-t-il le droit, ai-je le droit, est-il légal,
      est-ce légal, est-ce illégal, dois-je, quels sont mes droits, que faire, rédige*, écris,
      refuse de, combien de temps, porter plainte`,
    topics: `
      propriétaire, locataire*, bail, caution, dépôt de garantie, contrat de location,
      contrat de travail, contrat, licenci*, préavis, divorce*, garde des enfants,
      pension alimentaire, testament, héritage, succession, avocat, prud'hommes, plainte,
      poursuivre, procès, amende, dommages et intérêts, responsabilité, droit d'auteur, rgpd,
      conditions générales, procuration, expuls*, loyer, sous-louer, garantie légale, huissier,
      employeur`,
    loose: `droits, tribunal, loi, voisin, clause, rembours*`,
    strong: `
      mes droits, ai-je le droit, est-il légal, est-ce légal, rédige un contrat,
      contrat de location, porter plainte, rendre ma caution, mise en demeure, me licencier,
      rupture de contrat`,
    against: `droits de l'homme, constitution, loi de murphy`,
  },
  'financial-advice': {
    asks: `
      dois-je, devrais-je, faut-il, vaut-il mieux, où placer, comment placer, combien dois-je, quel,
      quelle, quelles, recommande*, conseille*, est-ce le bon moment, tu devrais, comment investir`,
    topics: `
      actions, bourse, etf, obligations, investir, investissement*, immobilier, bitcoin, crypto*,
      épargne, économies, livret a, assurance vie, assurance-vie, pea, retraite, prêt immobilier,
      crédit, emprunt*, impôts, défiscalis*, placement*, portefeuille, dividende*, dettes,
      hypothèque, fonds`,
    loose: `argent, acheter, vendre, louer, maison, taux`,
    strong: `
      dois-je investir, où placer, placer mes économies, placer mon argent, acheter ou louer,
      louer ou acheter, quelles actions, payer moins d'impôts, investir en bourse`,
    against: `
      bourse d'études, bourse du travail, acheter du pain, qu'est-ce qu'une action`,
  },
  'personal-data': {
    asks: `
      trouve*, cherche*, recherche*, donne-moi, où habite, à qui appartient, quel est, quelle est,
      qui est, localise*, identifie*, quel âge a`,
    leads: `mon, ma, ses, sa, né le, née le, habite`,
    topics: `
      adresse de mon, adresse de ma, l'adresse de, adresse personnelle, numéro de téléphone d*,
      numéro de sécurité sociale, téléphone de ma, téléphone de mon, mon ex, mon voisin, ma voisine,
      ma collègue, mon collègue, date de naissance, dossier médical, plaque d'immatriculation,
      son adresse, son numéro, adresse privée`,
    loose: `adresse, numéro, téléphone, habite, voisin`,
    strong: `
      je m'appelle, je suis né le, je suis née le, j'habite au, où habite mon, où habite ma,
      numéro de téléphone de ma, numéro de téléphone de mon, adresse de mon, adresse de ma`,
    against: `mairie, musée, bibliothèque, président*, service client, ambassade, gare`,
  },
}
