// Struct fields as JSON keys, with times in seconds.

package text

import (
	"reflect"
	"strings"
	"time"
	"unicode"
)

// seconds is the suffix of keys with times.
const seconds = "_seconds"

// FieldKey returns a field's JSON key: NameHits becomes name_hits, and a time's key ends in
// _seconds.
func FieldKey(name string, isTime bool) string {
	key := strings.ToLower(strings.ReplaceAll(FieldWords(name), " ", "_"))
	if isTime {
		key += seconds
	}
	return key
}

// Fields converts a struct to a JSON object with FieldKey's keys.
func Fields(v reflect.Value) map[string]any {
	object := map[string]any{}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			_, isTime := v.Field(i).Interface().(time.Duration)
			object[FieldKey(f.Name, isTime)] = fieldValue(v.Field(i))
		}
	}
	return object
}

func fieldValue(v reflect.Value) any {
	if d, ok := v.Interface().(time.Duration); ok {
		return d.Seconds()
	}
	switch v.Kind() {
	case reflect.Struct:
		return Fields(v)
	case reflect.Map:
		object := map[string]any{}
		for it := v.MapRange(); it.Next(); {
			object[it.Key().String()] = fieldValue(it.Value())
		}
		return object
	case reflect.Slice:
		list := []any{}
		for i := range v.Len() {
			list = append(list, fieldValue(v.Index(i)))
		}
		return list
	}
	return v.Interface()
}

// FieldWords splits a field name into words: NameHits becomes "name hits".
func FieldWords(name string) string {
	if name == strings.ToUpper(name) {
		return name
	}
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		lone := i+1 == len(runes) || !unicode.IsUpper(runes[i+1])
		if unicode.IsUpper(r) && i > 0 && (lone || !unicode.IsUpper(runes[i-1])) {
			b.WriteByte(' ')
		}
		if lone || i == 0 && len(runes) > 1 && !unicode.IsUpper(runes[1]) {
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
