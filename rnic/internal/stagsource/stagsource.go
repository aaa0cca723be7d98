// Where the random bits of STags come from.

// Package stagsource is the randomness of STags, which tests exchange for numbers that they know.
package stagsource

import "crypto/rand"

// Read fills b. It does not fail. Only tests, and those before anything else runs, change it.
var Read = func(b []byte) { rand.Read(b) }
