package message

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Of returns what kubectl prints for an error before it exits: one or more lines, without a final newline. It is empty
// if there is no error.
// behind the last. It is empty when there is no error.
func Of(err error) string {
	if err == nil {
		return ""
	}
	parts := flatten(err)
	if len(parts) == 1 {
		err = parts[0]
	}
	if status := statusOf(err); status != nil && status.Reason == metav1.StatusReasonInvalid {
		return invalid(status)
	}
	if missing, ok := errors.AsType[*meta.NoResourceMatchError](err); ok {
		return notServed(missing)
	}
	if len(parts) > 1 {
		var lines []string
		for _, e := range parts {
			lines = append(lines, bare(e))
		}
		return strings.Join(lines, "\n")
	}
	text, known := standard(err)
	if !known && !strings.HasPrefix(text, "error: ") {
		text = "error: " + text
	}
	return text
}

// flatten lists the errors that were joined into one, and nothing put around them.
func flatten(err error) []error {
	var parts []error
	switch joined := err.(type) { //nolint:errorlint // only the outermost says whether it is a list
	case interface{ Errors() []error }:
		parts = joined.Errors()
	case interface{ Unwrap() []error }:
		if parts = joined.Unwrap(); errors.Join(parts...).Error() != err.Error() {
			return []error{err}
		}
	default:
		return []error{err}
	}
	var all []error
	for _, e := range parts {
		all = append(all, flatten(e)...)
	}
	return all
}

func statusOf(err error) *metav1.Status {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		status := answer.Status()
		return &status
	}
	return nil
}

func bare(err error) string {
	text, _ := standard(err)
	return text
}

// standard formats the errors of the server and the connection, and passes others through.
func standard(err error) (text string, known bool) {
	if status := statusOf(err); status != nil {
		switch {
		case status.Reason == metav1.StatusReasonUnauthorized:
			return fmt.Sprintf("error: You must be logged in to the server (%s)", status.Message), true
		case status.Reason != "":
			return fmt.Sprintf("Error from server (%s): %v", status.Reason, err), true
		}
		return fmt.Sprintf("Error from server: %v", err), true
	}
	if _, ok := errors.AsType[*apierrors.UnexpectedObjectError](err); ok {
		return fmt.Sprintf("Server returned an unexpected response: %v", err), true
	}
	failed, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err.Error(), false
	}
	if !strings.Contains(failed.Err.Error(), "connection refused") {
		return fmt.Sprintf("Unable to connect to the server: %v", failed.Err), true
	}
	host := failed.URL
	if server, err := url.Parse(host); err == nil {
		host = server.Host
	}
	return fmt.Sprintf("The connection to the server %s was refused - did you specify the right host or port?", host), true
}

// invalid lists what the server found wrong, each once.
func invalid(status *metav1.Status) string {
	details := status.Details
	head := "The request is invalid"
	switch {
	case details == nil:
		if status.Message != "" {
			head += ": " + status.Message
		}
		return head
	case details.Kind != "" || details.Name != "":
		head = fmt.Sprintf("The %s %q is invalid", details.Kind, details.Name)
	case status.Message != "" && len(details.Causes) == 0:
		head += ": " + status.Message
	}
	var causes []string
	for _, c := range details.Causes {
		if text := fmt.Sprintf("%s: %s", c.Field, c.Message); !slices.Contains(causes, text) {
			causes = append(causes, text)
		}
	}
	switch len(causes) {
	case 0:
		return head
	case 1:
		return head + ": " + causes[0]
	}
	return head + ": \n* " + strings.Join(causes, "\n* ")
}

func notServed(err *meta.NoResourceMatchError) string {
	r := err.PartialResource
	text := fmt.Sprintf("the server doesn't have a resource type %q", r.Resource)
	switch {
	case r.Group != "" && r.Version != "":
		text += fmt.Sprintf(" in group %q and version %q", r.Group, r.Version)
	case r.Group != "":
		text += fmt.Sprintf(" in group %q", r.Group)
	case r.Version != "":
		text += fmt.Sprintf(" in version %q", r.Version)
	}
	return text
}
