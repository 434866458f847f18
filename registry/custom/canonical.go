package custom

import (
	"time"
	"unicode/utf8"
)

// canonical reports whether metadata is certain to be what reading it as an ObjectMeta and writing it again gives: every
// field is known, of its type and in the form in which it is written. What the registry has stored is.
func canonical(metadata any) bool {
	return fieldsOf(metadata, func(name string, value any) bool {
		switch name {
		case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
			return filledText(value)
		case "generation":
			n, ok := value.(int64)
			return ok && n != 0
		case "deletionGracePeriodSeconds":
			_, ok := value.(int64)
			return ok
		case "creationTimestamp", "deletionTimestamp":
			return canonicalTime(value)
		case "labels", "annotations":
			return fieldsOf(value, func(key string, value any) bool { return utf8.ValidString(key) && validText(value) })
		case "finalizers":
			return every(value, validText)
		case "ownerReferences":
			return every(value, canonicalOwner)
		case "managedFields":
			return every(value, canonicalManaged)
		}
		return false
	})
}

func canonicalOwner(value any) bool {
	texts := 0
	return fieldsOf(value, func(name string, value any) bool {
		switch name {
		case "apiVersion", "kind", "name", "uid":
			texts++
			return validText(value)
		case "controller", "blockOwnerDeletion":
			_, ok := value.(bool)
			return ok
		}
		return false
	}) && texts == 4 // which are written even if they are empty
}

func canonicalManaged(value any) bool {
	return fieldsOf(value, func(name string, value any) bool {
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			return filledText(value)
		case "time":
			return canonicalTime(value)
		case "fieldsV1":
			_, ok := value.(map[string]any)
			return ok && onlyMaps(value)
		}
		return false
	})
}

// fieldsOf reports whether a value is an object that is not empty and whose fields are all ok.
func fieldsOf(value any, ok func(name string, value any) bool) bool {
	object, is := value.(map[string]any)
	if !is || len(object) == 0 {
		return false
	}
	for name, value := range object {
		if !ok(name, value) {
			return false
		}
	}
	return true
}

// every reports whether a value is a list that is not empty and whose items are all ok.
func every(value any, ok func(any) bool) bool {
	list, is := value.([]any)
	if !is || len(list) == 0 {
		return false
	}
	for _, item := range list {
		if !ok(item) {
			return false
		}
	}
	return true
}

func validText(value any) bool {
	text, ok := value.(string)
	return ok && utf8.ValidString(text)
}

func filledText(value any) bool { return value != "" && validText(value) }

func canonicalTime(value any) bool {
	text, ok := value.(string)
	if !ok {
		return false
	}
	t, err := time.Parse(time.RFC3339, text)
	var buffer [len("2006-01-02T15:04:05Z07:00")]byte
	return err == nil && !t.IsZero() && string(t.UTC().AppendFormat(buffer[:0], time.RFC3339)) == text
}

// onlyMaps reports whether there is nothing but maps in a value.
func onlyMaps(value any) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range object {
		if !utf8.ValidString(key) || !onlyMaps(value) {
			return false
		}
	}
	return true
}
