/* The functions that TensorRT's Python bindings and this project link to, and nothing behind them: classes, methods and
   enums of the bindings can be looked at; whatever would build or run an engine gets NULL. VERSION comes from gcc's -D. */
#include <stddef.h>
#define NOTHING(name) void* name(void) { return NULL; }
NOTHING(createInferBuilder_INTERNAL)
NOTHING(createInferRefitter_INTERNAL)
NOTHING(createInferRuntime_INTERNAL)
NOTHING(createNvOnnxParser_INTERNAL)
NOTHING(createNvOnnxParserRefitter_INTERNAL)
NOTHING(getBuilderPluginRegistry)
NOTHING(getPluginRegistry)
NOTHING(getNvOnnxParserVersion)
NOTHING(initLibNvInferPlugins)
int getInferLibVersion(void) { return VERSION; }
