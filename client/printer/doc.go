// Package printer writes objects in the forms of kubectl's flag --output, to the letter: tables that
// the server made, names, JSON, YAML, JSONPath, Go templates and custom columns.
//
//	p, err := printer.New("custom-columns=NAME:.metadata.name", printer.Options{})
//	err = p.Print(os.Stdout, obj)
//
// # Tables
//
// A server prints its kinds itself when a request carries [TableAccept]: its answer is a table,
// which the forms "" and "wide" align and add columns to. Objects that are no tables are shown by
// name and age. Headers are written once for tables of the same columns, so that a watch may be
// printed event by event. Columns are aligned within one call of Print, and across calls into an
// [Aligned].
//
// # Differences from kubectl
//
// The error of a template does not repeat the object that it failed on, which may be a Secret.
// What cannot be sorted is an error; kubectl leaves the process.
//
// # Errors and concurrency
//
// Errors are those of the writer, of templates, and [ErrFormat]. Printers remember what they have
// printed, and are for one goroutine at a time. They do not change objects.
package printer
