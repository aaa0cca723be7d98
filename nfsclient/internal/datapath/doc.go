// Package documentation: the engine's guarantees.

// Package datapath is the read-ahead and write-behind of a mount. It identifies files only by NFSv3
// handles: no paths, no attributes, no FUSE.
//
//   - Engine is the state of a mount: its memory bounds and background work.
//   - File is the state of one file, shared by all its Handles.
//   - Handle is one open file: it detects sequential readers, and returns each write error once.
//
// Reads in the same Engine see written data at once, and the data is on its way to the server. It
// is stable there after Sync or Flush has returned nil. A context bounds a wait, never the data:
// accepted data is written even if its writer has stopped waiting.
package datapath
