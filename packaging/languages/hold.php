<?php
// SPDX-License-Identifier: MIT
// hold.php: hold.c in PHP.
$held = [];
for ($i = 0; $i < 8000; $i++) $held[] = str_repeat(chr($i % 256), 1000);
echo "held ", getmypid(), "\n";
stream_get_contents(STDIN);
