// The messages on the socket: one line of JSON each way.

// Package control connects commands with a server on this machine. A Unix socket takes one request
// per connection and answers it. Only root and the user who runs the server are answered.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// version is the messages' version. It grows when a message changes its meaning. Older programs
// ignore new fields.
const version = 1

// Limits of a line, in bytes including its newline.
const (
	maxRequest = 4 << 10
	maxReply   = 64 << 20
)

// A request names the command.
type request struct {
	Version int    `json:"version"`
	Command string `json:"command"`
}

// A reply has a result, or the reason for its absence.
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

// encodeReply returns the line of a result or an error. Newlines in the error become "; ".
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

// parseReply returns the result in a line.
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

// A RefusedError is the server's error message in place of a result.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }
