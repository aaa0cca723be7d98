// The messages on the socket: one line of JSON each way.

// Package control is how commands reach a server that runs on this machine: a Unix socket that takes one request on each
// connection and answers it. Only root and the user who runs the server are answered.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// version is that of the messages. It grows when a message changes its meaning; fields that are new are ignored by who does not
// know them.
const version = 1

// Bounds of a line, in bytes with its end.
const (
	maxRequest = 4 << 10
	maxReply   = 64 << 20
)

// A request is what a command asks for.
type request struct {
	Version int    `json:"version"`
	Command string `json:"command"`
}

// A reply is the answer: a result, or else why there is none.
type reply struct {
	Version int             `json:"version"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
}

var errNotARequest = errors.New("the server does not understand the request")

// parseRequest reads a line and returns the command.
func parseRequest(line []byte) (command string, err error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil || r.Command == "" {
		return "", errNotARequest
	}
	if r.Version != version {
		return "", fmt.Errorf("the command and the server are of different versions (messages %d and %d): use the program that the server was started from", r.Version, version)
	}
	return r.Command, nil
}

// encodeReply is the line of a result, or of an error, which it makes one line of.
func encodeReply(result any, err error) []byte {
	r := reply{Version: version}
	if err == nil {
		r.Result, err = json.Marshal(result)
	}
	if err != nil {
		r.Result, r.Error = nil, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	line, err := json.Marshal(&r)
	if err != nil {
		line = []byte(`{"version":1,"error":"the answer cannot be encoded"}`)
	}
	return append(line, '\n')
}

// parseReply reads a line and returns the result.
func parseReply(line []byte) (json.RawMessage, error) {
	var r reply
	switch err := json.Unmarshal(line, &r); {
	case err != nil:
		return nil, errors.New("it answers in a way that is not understood")
	case r.Error != "":
		return nil, &RefusedError{r.Error}
	case r.Version != version || r.Result == nil:
		return nil, errors.New("it is of another version")
	}
	return r.Result, nil
}

// A RefusedError is what the server says in place of a result.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }
