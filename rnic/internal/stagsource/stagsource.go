// The source of STags' random bits.

// Package stagsource supplies the randomness for STags, which tests replace by known numbers.
package stagsource

import "crypto/rand"

// Read fills b with random bytes and never fails. Only tests replace Read, before anything else
// runs.
var Read = func(b []byte) { rand.Read(b) }
