package customresources_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// comparable returns what two answers must have in common.
func (a answer) comparable() m {
	body := a.body
	if o, ok := body.(m); ok {
		o = clone(o)
		body = o
		switch o["kind"] {
		case "Status":
			normalizeStatus(o)
		case "Table":
			normalizeTable(o)
		case "CustomResourceDefinition":
			normalizeMetadata(o)
			delete(o, "status") // the controllers write it meanwhile
			metadata := o["metadata"].(m)
			if fields, ok := metadata["managedFields"].(l); ok {
				metadata["managedFields"] = slices.DeleteFunc(fields, func(f any) bool { return f.(m)["subresource"] == "status" })
			}
		default:
			normalizeMetadata(o)
			items, _ := o["items"].(l)
			for _, item := range items {
				if item, ok := item.(m); ok {
					normalizeMetadata(item)
				}
			}
		}
	}
	var warnings l
	for _, w := range a.warnings {
		warnings = append(warnings, w)
	}
	return m{"code": a.code, "warnings": warnings, "body": body}
}

// normalizeMetadata removes what no two servers have in common.
func normalizeMetadata(o m) {
	metadata, ok := o["metadata"].(m)
	if !ok {
		return
	}
	for _, k := range []string{"uid", "resourceVersion", "creationTimestamp"} {
		delete(metadata, k)
	}
	fields, _ := metadata["managedFields"].(l)
	for _, f := range fields {
		if f, ok := f.(m); ok {
			delete(f, "time")
		}
	}
	// They are in the order of their times, which are seconds that begin between the two answers.
	slices.SortFunc(fields, func(a, b any) int { return strings.Compare(text(a), text(b)) })
}

// owns match what an object has of its own in messages that quote it.
var owns = []*regexp.Regexp{
	regexp.MustCompile(`(\\*"uid\\*":\\*")[-0-9a-f]{36}`), regexp.MustCompile(`(\\*"resourceVersion\\*":\\*"[^"\\]*?)[0-9]+`),
	regexp.MustCompile(`(\\*"(?:time|creationTimestamp)\\*":\\*")[-0-9TZ:]{20}`), regexp.MustCompile(`(selfType)[0-9]+`),
}

// unbounded is what keelson adds to errors about rules that may cost too much.
var unbounded = regexp.MustCompile(`; these have no bound: [^ ]+ \(max[A-Za-z]+\)(, [^ ]+ \(max[A-Za-z]+\))*`)

func withoutOwn(text string) string {
	text = unbounded.ReplaceAllString(text, "")
	for _, own := range owns {
		text = own.ReplaceAllString(text, "$1…")
	}
	return text
}

// words are those of a text in order: upstream lists errors, and what objects consist of, in the order of Go's maps.
func words(text string) string {
	all := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" ,[]{}", c) })
	slices.Sort(all)
	return strings.Join(all, " ")
}

// normalizeStatus sorts what upstream lists in the order of Go's maps.
func normalizeStatus(o m) {
	normalizeMetadata(o)
	if text, ok := o["message"].(string); ok {
		o["message"] = words(withoutOwn(text))
	}
	details, _ := o["details"].(m)
	delete(details, "uid")
	if causes, ok := details["causes"].(l); ok {
		for _, c := range causes {
			c := c.(m)
			if text, ok := c["message"].(string); ok {
				c["message"] = words(withoutOwn(text))
			}
		}
		slices.SortFunc(causes, func(a, b any) int { return strings.Compare(text(a), text(b)) })
	}
}

func normalizeTable(o m) {
	normalizeMetadata(o)
	dates := map[int]bool{}
	columns, _ := o["columnDefinitions"].(l)
	for i, c := range columns {
		if c, ok := c.(m); ok && c["type"] == "date" {
			dates[i] = true
		}
	}
	rows, _ := o["rows"].(l)
	for _, row := range rows {
		row, _ := row.(m)
		if object, ok := row["object"].(m); ok {
			normalizeMetadata(object)
		}
		cells, _ := row["cells"].(l)
		for i := range cells {
			if s, ok := cells[i].(string); ok && dates[i] && s != "<unknown>" && s != "<invalid>" {
				cells[i] = "some time"
			}
		}
	}
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// differences describes how two answers differ, and is empty if they do not.
func differences(keelson, upstream answer) string {
	return cmp.Diff(keelson.comparable(), upstream.comparable())
}

var (
	quoted     = regexp.MustCompile(`\\?"(?:[^"\\]|\\.)*"`)
	versionsOf = regexp.MustCompile(`v1beta1|v2alpha1`)
	digits     = regexp.MustCompile(`[0-9]+`)
	spaces     = regexp.MustCompile(`[\s\x{a0}]+`)
)

// class names the kind of a difference, so that each is reported once.
func class(r request, keelson, upstream answer) string {
	if keelson.code != upstream.code {
		return fmt.Sprintf("%s: %d, upstream %d: %s", r.what, keelson.code, upstream.code, brief(keelson)+" / "+brief(upstream))
	}
	a, b := keelson.comparable(), upstream.comparable()
	var lines []string
	for line := range strings.Lines(cmp.Diff(a, b)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") {
			lines = append(lines, spaces.ReplaceAllString(digits.ReplaceAllString(versionsOf.ReplaceAllString(line, "…"), "0"), " "))
		}
	}
	if len(lines) > 2 {
		lines = lines[:2]
	}
	return fmt.Sprintf("%s: %d: %.300s", r.what, keelson.code, strings.Join(lines, " | "))
}

// brief returns a message without what it is about.
func brief(a answer) string {
	message, _ := a.object()["message"].(string)
	message = digits.ReplaceAllString(quoted.ReplaceAllString(message, "…"), "0")
	return fmt.Sprintf("%.120s", message)
}
