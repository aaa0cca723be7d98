// Times in microseconds that are encoded in seconds.

package text

import (
	"math"
	"strconv"
)

// Micros is a time in microseconds. Its JSON form is in seconds, with nanosecond resolution.
type Micros float64

// MarshalJSON encodes seconds.
func (m Micros) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(float64(m)*1e3)/1e9, 'f', -1, 64), nil
}

// UnmarshalJSON decodes seconds.
func (m *Micros) UnmarshalJSON(b []byte) error {
	seconds, err := strconv.ParseFloat(string(b), 64)
	*m = Micros(math.Round(seconds*1e9) / 1e3)
	return err
}
