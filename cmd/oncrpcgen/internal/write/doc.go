// Overview: from a checked file to Go.

// Package write writes Go for a checked file: constants, types with EncodeXDR and DecodeXDR, and a
// client and a server for each program's versions.
package write
