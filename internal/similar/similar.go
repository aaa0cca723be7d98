// Finding the known word close to a mistyped word, for messages.

// Package similar finds the word that a user may have meant.
package similar

import "strings"

// least is the shortest length of a word taken as the beginning of another: a shorter word begins
// too many others.
const least = 3

// Word returns the known word one step away from word, else a known word if one of the two begins
// with the other; "" if there is none.
func Word(word string, known []string) string {
	for _, k := range known {
		if oneStep(word, k) {
			return k
		}
	}
	for _, k := range known {
		if len(word) >= least && len(k) >= least && (strings.HasPrefix(word, k) || strings.HasPrefix(k, word)) {
			return k
		}
	}
	return ""
}

// oneStep reports whether a is b with one byte added, removed or changed, or with two neighbors
// exchanged.
func oneStep(a, b string) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	ra, rb := a[i:], b[i:]
	switch {
	case len(ra) == len(rb)+1:
		return ra[1:] == rb
	case len(rb) == len(ra)+1:
		return rb[1:] == ra
	case len(ra) == len(rb) && len(ra) > 0:
		return ra[1:] == rb[1:] || len(ra) > 1 && ra[0] == rb[1] && ra[1] == rb[0] && ra[2:] == rb[2:]
	}
	return false
}
