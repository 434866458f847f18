package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// answer is a server's answer to a client.
type answer struct {
	outcome  Outcome
	object   Object
	items    []Object
	revision int64
	message  string
	at       int64 // the tick by which it took effect, if that was before the end
}

// api sends requests about one kind of object in one namespace.
type api struct {
	resource  string
	namespace string
	tick      func() int64
}

// wire is the decoded part of objects, lists and statuses.
type wire struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string            `json:"name"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		Continue        string            `json:"continue"`
	} `json:"metadata"`
	Items   []wire `json:"items"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Code    int    `json:"code"`
	Details struct {
		UID string `json:"uid"`
	} `json:"details"`
}

func (w *wire) revision() int64 {
	n, _ := strconv.ParseInt(w.Metadata.ResourceVersion, 10, 64) // 0 means no revision
	return n
}

func (w *wire) object() Object {
	return Object{
		Key: w.Metadata.Name, UID: w.Metadata.UID, Revision: w.revision(),
		A: w.Metadata.Annotations["a"], B: w.Metadata.Annotations["b"], Label: w.Metadata.Labels["l"],
	}
}

// url is the URL of an object, or of the collection if name is empty.
func (a api) url(name string, query url.Values) string {
	u := "http://server/api/v1/namespaces/" + a.namespace + "/" + a.resource
	if name != "" {
		u += "/" + name
	}
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	return u
}

func (a api) body(name string, c Change, revision int64) []byte {
	meta := map[string]any{"name": name, "annotations": map[string]string{"a": c.A, "b": c.B}}
	if c.Label != "" && c.Label != "-" {
		meta["labels"] = map[string]string{"l": c.Label}
	}
	if revision > 0 {
		meta["resourceVersion"] = strconv.FormatInt(revision, 10)
	}
	o := map[string]any{"metadata": meta}
	if a.resource == "pods" {
		o["spec"] = map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}
	}
	data, _ := json.Marshal(o) //nolint:errchkjson // strings and maps marshal
	return data
}

// patch is a JSON merge patch.
func (a api) patch(c Change) []byte {
	annotations := map[string]string{}
	if c.A != "" {
		annotations["a"] = c.A
	}
	if c.B != "" {
		annotations["b"] = c.B
	}
	meta := map[string]any{"annotations": annotations}
	switch c.Label {
	case "":
	case "-":
		meta["labels"] = map[string]any{"l": nil}
	default:
		meta["labels"] = map[string]any{"l": c.Label}
	}
	data, _ := json.Marshal(map[string]any{"metadata": meta}) //nolint:errchkjson // as above
	return data
}

// send makes one request and reads its answer; a status code of 0 means no answer.
func send(ctx context.Context, server http.RoundTripper, method, url string, body []byte) (int, *wire, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	switch method {
	case http.MethodPatch:
		r.Header.Set("Content-Type", "application/merge-patch+json")
	case http.MethodPost, http.MethodPut, http.MethodDelete:
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := server.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return 0, nil, fmt.Errorf("answer %q: %w", data, err)
	}
	return resp.StatusCode, &w, nil
}

// do performs an operation.
func (a api) do(ctx context.Context, server http.RoundTripper, op *Op) answer {
	var method, name, body = "", op.Key, []byte(nil)
	switch op.Verb {
	case Create:
		method, name, body = http.MethodPost, "", a.body(op.Key, op.Change, 0)
	case Get:
		method = http.MethodGet
	case Update:
		method, body = http.MethodPut, a.body(op.Key, op.Change, op.If.Revision)
	case Patch:
		method, body = http.MethodPatch, a.patch(op.Change)
	case Delete:
		method, body = http.MethodDelete, deletion(op.If)
	case List:
		return a.list(ctx, server, op, url.Values{})
	}
	code, w, err := send(ctx, server, method, a.url(name, nil), body)
	if err != nil {
		return answer{outcome: Unknown, message: err.Error()}
	}
	o := outcome(code, w)
	if o.outcome == OK {
		o.object = w.object()
		if op.Verb == Delete {
			o.object = Object{Key: op.Key, UID: w.Details.UID}
			if w.Kind != "Status" {
				o.object.UID = w.Metadata.UID
			}
		}
	}
	return o
}

func deletion(c Condition) []byte {
	o := map[string]any{"gracePeriodSeconds": 0}
	conditions := map[string]string{}
	if c.UID != "" {
		conditions["uid"] = c.UID
	}
	if c.Revision > 0 {
		conditions["resourceVersion"] = strconv.FormatInt(c.Revision, 10)
	}
	if len(conditions) > 0 {
		o["preconditions"] = conditions
	}
	data, _ := json.Marshal(o) //nolint:errchkjson // strings and maps marshal
	return data
}

func (a api) list(ctx context.Context, server http.RoundTripper, op *Op, query url.Values) answer {
	switch op.Mode {
	case Paged:
		query.Set("limit", "2")
	case Any:
		query.Set("resourceVersion", "0")
	case NotOlder:
		query.Set("resourceVersion", strconv.FormatInt(op.Ask, 10))
		query.Set("resourceVersionMatch", "NotOlderThan")
	case Exact:
		query.Set("resourceVersion", strconv.FormatInt(op.Ask, 10))
		query.Set("resourceVersionMatch", "Exact")
	}
	var all answer
	for {
		code, w, err := send(ctx, server, http.MethodGet, a.url("", query), nil)
		if err != nil {
			return answer{outcome: Unknown, message: err.Error()}
		}
		one := outcome(code, w)
		if one.outcome != OK {
			return one
		}
		if all.revision != 0 && all.revision != w.revision() {
			return answer{outcome: Refused, message: fmt.Sprintf("pages at revisions %d and %d", all.revision, w.revision())}
		}
		if all.outcome == "" && op.Mode == Paged {
			all.at = a.tick() // the first page is the newest state, the others are of its revision
		}
		all.outcome, all.revision = OK, w.revision()
		for i := range w.Items {
			all.items = append(all.items, w.Items[i].object())
		}
		if w.Metadata.Continue == "" {
			return all
		}
		query.Set("continue", w.Metadata.Continue)
	}
}

// outcome classifies an answer by its code and reason. A request that a server or a proxy did not complete has an
// unknown outcome.
func outcome(code int, w *wire) answer {
	a := answer{message: w.Message}
	switch {
	case code >= 200 && code < 300:
		a.outcome = OK
	case code == http.StatusNotFound && w.Reason == "NotFound":
		a.outcome = NotFound
	case code == http.StatusConflict && w.Reason == "AlreadyExists":
		a.outcome = Exists
	case code == http.StatusConflict && w.Reason == "Conflict":
		a.outcome = Conflict
	case code == http.StatusGone:
		a.outcome = Expired
	case code >= 500 || code == http.StatusTooManyRequests:
		a.outcome = Unknown
	default:
		a.outcome = Refused
		a.message = fmt.Sprintf("%d %s: %s", code, w.Reason, w.Message)
	}
	return a
}
