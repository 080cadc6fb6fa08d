<?php
// SPDX-License-Identifier: MIT
//
// Strings, arrays, regular expressions, JSON, iconv, serialisation, generators, cycles for the collector; the same output
// every time. Through a web server it is the page; from the command line the argument says how many rounds.
declare(strict_types=1);

mt_srand(2004);
$rounds = (int)($argv[1] ?? 1);
$digest = hash_init('sha256');
for ($round = 0; $round < $rounds * 20; ++$round) {
    $words = [];
    for ($i = 0; $i < 3000; ++$i) $words[] = str_repeat(chr(97 + mt_rand(0, 25)), mt_rand(1, 90)) . $i;
    shuffle($words);
    usort($words, fn(string $a, string $b): int => strlen($a) <=> strlen($b) ?: strcmp($a, $b));
    $text = implode(' ', $words);
    $numbers = preg_replace_callback('/([a-z])\1+(\d+)/', fn(array $m): string => strtoupper($m[1]) . ((int)$m[2] * 2), $text);
    $tree = json_decode(json_encode(array_chunk(explode(' ', $numbers), 7)), true);
    $copy = unserialize(serialize($tree));
    for ($i = 0; $i < 500; ++$i) {
        $node = new stdClass();
        $node->self = $node;
        $node->words = array_slice($copy, $i % 100, 5);
    }
    gc_collect_cycles();
    hash_update($digest, json_encode($copy) . iconv('UTF-8', 'UTF-16LE', with_umlauts(substr($text, 0, 999))));
}
function with_umlauts(string $s): string { return htmlspecialchars($s . 'äöü€'); }
echo count(get_loaded_extensions()) > 20 ? "many extensions\n" : "few extensions\n";
echo hash_final($digest), "\n";
