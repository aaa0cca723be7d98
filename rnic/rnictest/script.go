// A script: octets that a fuzzer makes, read as numbers and choices.

package rnictest

// A Script is read from its front. Behind its end are zeros.
type Script []byte

// Octet takes one octet.
func (s *Script) Octet() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

// Word takes two octets, the high one first.
func (s *Script) Word() int {
	return int(s.Octet())<<8 | int(s.Octet())
}

// Take takes n octets, or as many as there are.
func (s *Script) Take(n int) []byte {
	n = min(n, len(*s))
	b := (*s)[:n:n]
	*s = (*s)[len(b):]
	return b
}

// More says whether anything is left.
func (s *Script) More() bool { return len(*s) > 0 }
