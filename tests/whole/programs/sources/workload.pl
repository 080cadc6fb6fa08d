# SPDX-License-Identifier: MIT
#
# workload.pl: hashes, strings, regular expressions, sorting, interpreter threads (each a deep copy of the interpreter)
# and forks. Prints the same every time. Argument: scale.
use strict;
use warnings;
use threads;

my $scale = shift // 1;
my $seed = 2004;
sub number { $seed = ($seed * 1103515245 + 12345) % 2147483648; return $seed >> 8 }

# Perl orders hash keys at random: everything printed is sorted or summed.
my (%words, @rows);
for my $i (1 .. 40_000 * $scale) {
    my $word = join '', map { chr(97 + number() % 6) } 1 .. 1 + number() % 5;
    push @{ $words{$word} }, $i;
    push @rows, { key => $word, value => number() % 1000, text => 'x' x (number() % 200) };
}
my $longest = (sort { @{ $words{$b} } <=> @{ $words{$a} } || $a cmp $b } keys %words)[0];
print scalar(keys %words), " words, most often $longest\n";

my @sorted = sort { $a->{key} cmp $b->{key} || $a->{value} <=> $b->{value} } @rows;
my $text = join ',', map { "$_->{key}=$_->{value}" } @sorted;
my $changed = ($text =~ s/([a-c]+)=(\d+)/"$2:" . uc($1)/ge);
my $sum = 0;
$sum += $1 while $text =~ /(\d+)/g;
print length($text), " characters, $changed changes, sum $sum\n";

my @threads = map {
    my $start = $_;
    threads->create(sub {
        my %own;
        $own{ $_ * 7919 % 10_007 } .= "$_;" for $start .. $start + 20_000;
        my $total = 0;
        $total += length $own{$_} for keys %own;
        return $total;
    });
} 1 .. 4;
print 'threads ', join(' ', map { $_->join } @threads), "\n";

my @children;
for my $n (1 .. 20) {
    pipe(my $from, my $to) or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        my @half = grep { $_->{value} % 2 == $n % 2 } @rows;
        @rows = ();
        print {$to} scalar(@half), "\n";
        close $to;
        exit 0;
    }
    close $to;
    push @children, [ $pid, $from ];
}
for my $child (@children) {
    my $answer = readline $child->[1];
    waitpid $child->[0], 0;
    print "child $? $answer";
}
