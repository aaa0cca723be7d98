// The flags, the width and the precision of a letter of stat -c, which are those of printf(3).

package listing

import (
	"math"
	"strconv"
	"strings"
)

// A spec is the text between % and the letter.
type spec struct {
	text      string // all of it
	flags     string
	width     int // 0 where there is none
	point     bool
	precision int // -1 where there are no digits
}

// specMost bounds width and precision, and so the output for a file.
const specMost = 1 << 20

// parseSpec takes a spec from the front of format.
func parseSpec(format string) (s spec, rest string) {
	rest = strings.TrimLeft(format, "'-+ #0I")
	s.flags, s.precision = format[:len(format)-len(rest)], -1
	s.width, rest = digits(rest)
	s.width = max(s.width, 0)
	if strings.HasPrefix(rest, ".") {
		s.point = true
		s.precision, rest = digits(rest[1:])
	}
	s.text = format[:len(format)-len(rest)]
	return s, rest
}

// digits takes a number from the front of format; -1 where there is none.
func digits(format string) (n int, rest string) {
	rest = strings.TrimLeft(format, "0123456789")
	number := format[:len(format)-len(rest)]
	if number == "" {
		return -1, rest
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		n = specMost
	}
	return min(n, specMost), rest
}

// has reports whether a flag is set.
func (s spec) has(flag string) bool { return strings.Contains(s.flags, flag) }

// string is printf's %s, in bytes.
func (s spec) string(v string) string {
	if s.point {
		v = v[:min(max(s.precision, 0), len(v))]
	}
	s.flags = strings.ReplaceAll(s.flags, "0", "")
	return s.pad("", v)
}

// signed is printf's %d.
func (s spec) signed(n int64) string {
	sign := ""
	switch {
	case n < 0:
		sign = "-"
	case s.has("+"):
		sign = "+"
	case s.has(" "):
		sign = " "
	}
	return s.number(sign, strings.TrimPrefix(strconv.FormatInt(n, 10), "-"))
}

// unsigned is printf's %u.
func (s spec) unsigned(n uint64) string { return s.number("", strconv.FormatUint(n, 10)) }

// octal is printf's %o: with # the first digit is a 0, which counts for the precision.
func (s spec) octal(n uint64) string {
	v := strconv.FormatUint(n, 8)
	switch {
	case s.has("#") && n != 0:
		v = "0" + v
	case s.has("#"):
		s.precision = max(s.precision, 1)
	}
	return s.number("", v)
}

// hex is printf's %x.
func (s spec) hex(n uint64) string {
	before := ""
	if s.has("#") && n != 0 {
		before = "0x"
	}
	return s.number(before, strconv.FormatUint(n, 16))
}

// number writes digits after a sign or 0x. A precision is the least number of digits; without one,
// 0 has no prefix.
func (s spec) number(before, v string) string {
	if !s.point {
		return s.pad(before, v)
	}
	s.flags = strings.ReplaceAll(s.flags, "0", "")
	if v == "0" {
		v = ""
	}
	return s.pad(before, strings.Repeat("0", max(s.precision-len(v), 0))+v)
}

// pad brings a value to the width.
func (s spec) pad(before, v string) string {
	n := max(s.width-len(before)-len(v), 0)
	switch {
	case s.has("-"):
		return before + v + strings.Repeat(" ", n)
	case s.has("0"):
		return before + strings.Repeat("0", n) + v
	}
	return strings.Repeat(" ", n) + before + v
}

// nanoDigits is the digits of a fraction that a time has.
const nanoDigits = 9

// epoch is a time in seconds, with as many digits of the fraction as the precision says, or all of
// them after a point without digits. The width holds for both. The text after the fraction is as in
// stat(1), which also writes blanks if the seconds are shorter than the width and the whole is
// longer.
func (s spec) epoch(sec int64, nsec int) string {
	whole, places := s, s.precision
	if whole.point = false; s.point && places < 0 {
		places = nanoDigits
	}
	if places <= 0 {
		return whole.signed(sec)
	}
	if whole.width = 0; s.width > 1 && s.width-1-places > 1 {
		whole.width = s.width - 1 - places
		if whole.has("-") {
			whole.width = 0
		}
	}
	seconds := whole.signed(sec)
	shown := min(places, nanoDigits)
	fraction := strconv.Itoa(nsec + int(math.Pow10(nanoDigits)))[1 : 1+shown]
	blanks := 0
	if rest := s.width - len(seconds); s.width > 0 && rest > 1 {
		blanks = rest - 1 - shown
		blanks = max(blanks, -blanks)
	}
	zeros := strings.Repeat("0", places-shown)
	return seconds + "." + fraction + zeros + strings.Repeat(" ", max(blanks-len(zeros), 0))
}
