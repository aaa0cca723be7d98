// A stat -c directive's flags, width and precision, as in printf(3).

package listing

import (
	"math"
	"strconv"
	"strings"
)

// A spec is the text between % and the letter.
type spec struct {
	text      string // the whole text
	flags     string
	width     int // 0: no width
	point     bool
	precision int // -1 without digits
}

// specMost limits width and precision, and so the output for one file.
const specMost = 1 << 20

// parseSpec takes a spec from format's start.
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

// digits takes a number from format's start; -1 means no digits.
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

// string returns printf's %s, in bytes.
func (s spec) string(v string) string {
	if s.point {
		v = v[:min(max(s.precision, 0), len(v))]
	}
	s.flags = strings.ReplaceAll(s.flags, "0", "")
	return s.pad("", v)
}

// signed returns printf's %d.
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

// unsigned returns printf's %u.
func (s spec) unsigned(n uint64) string { return s.number("", strconv.FormatUint(n, 10)) }

// octal returns printf's %o. With # the first digit is a 0 and counts toward the precision.
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

// hex returns printf's %x.
func (s spec) hex(n uint64) string {
	before := ""
	if s.has("#") && n != 0 {
		before = "0x"
	}
	return s.number(before, strconv.FormatUint(n, 16))
}

// number writes digits after a sign or 0x. The precision is the minimum digit count. Without a
// precision, the 0 flag pads to the width.
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

// pad pads a value to the width.
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

// nanoDigits is the digit count in a time's fraction.
const nanoDigits = 9

// epoch formats a time in seconds. The precision is the fraction's digit count; a point without
// digits means all digits. The width covers seconds and fraction. Blanks after the fraction fill
// the width. Like stat(1), epoch also writes blanks if the seconds are narrower than the width and
// the whole is wider.
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
