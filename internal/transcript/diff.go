package transcript

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Diff lists the differences between two answers, one per line.
func Diff(want, got Answer) []string {
	var lines []string
	diff("code", want.Code, got.Code, &lines)
	diff("header", anyMap(want.Header), anyMap(got.Header), &lines)
	diff("body", want.Body, got.Body, &lines)
	return lines
}

func diff(path string, want, got any, lines *[]string) {
	if reflect.DeepEqual(want, got) {
		return
	}
	wantMap, ok1 := want.(map[string]any)
	gotMap, ok2 := got.(map[string]any)
	if ok1 && ok2 {
		keys := map[string]bool{}
		for k := range wantMap {
			keys[k] = true
		}
		for k := range gotMap {
			keys[k] = true
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			diff(path+"."+k, wantMap[k], gotMap[k], lines)
		}
		return
	}
	wantList, ok1 := want.([]any)
	gotList, ok2 := got.([]any)
	if ok1 && ok2 && len(wantList) == len(gotList) {
		for i := range wantList {
			diff(fmt.Sprintf("%s[%d]", path, i), wantList[i], gotList[i], lines)
		}
		return
	}
	*lines = append(*lines, fmt.Sprintf("%s:\n\t  upstream %s\n\t  keelson  %s", path, show(want), show(got)))
}

func anyMap(m map[string]string) any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func show(v any) string {
	if v == nil {
		return "nothing"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
